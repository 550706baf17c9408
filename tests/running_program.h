#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "accrue/base/temporary_folder.h"

namespace accrue::testing {

// The program accrue while it runs beside the test. It is killed if it still runs when this goes.
class RunningProgram {
public:
    // `environment`: "NAME=value", besides that of the test.
    explicit RunningProgram(const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment = {});
    ~RunningProgram();
    RunningProgram(const RunningProgram&) = delete;
    RunningProgram& operator=(const RunningProgram&) = delete;

    // All it has said so far, errors too.
    [[nodiscard]] std::string output() const;
    // Waits until it has said that; false if it ended before, or not within some minutes.
    [[nodiscard]] bool says(const std::string& words);
    [[nodiscard]] bool has_ended();
    void send(int signal) const;
    // Its exit code, 128 + signal if one killed it; kills it if it takes some minutes.
    [[nodiscard]] int wait();

private:
    TemporaryFolder folder_;
    pid_t id_ = -1;
    bool has_ended_ = false;
    int status_ = 0;
};

// Processes that were started on this machine to compute for the run in that folder.
[[nodiscard]] std::vector<pid_t> workers_of_run(const std::filesystem::path& folder);

}  // namespace accrue::testing
