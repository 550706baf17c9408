#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/soaking/child.h"
#include <sys/types.h>

namespace accrue::soaking {

// Those of a group that are there and not only waiting to be asked how they ended. A leader and its workers are one.
[[nodiscard]] std::vector<pid_t> processes_of_group(pid_t group);
// Those of them that compute.
[[nodiscard]] std::vector<pid_t> workers_of_group(pid_t group);

// What a worker was told when it was started, which another one needs to join its run.
struct Invitation {
    std::filesystem::path program;
    std::string address;
    std::string run;
    std::string token;
};
// None if that process is gone by now, or no worker.
[[nodiscard]] std::optional<Invitation> invitation_of(pid_t worker);

// A process that was begun, and ends with this object at the latest.
class RunningChild {
public:
    explicit RunningChild(const Command& command);
    ~RunningChild();
    RunningChild(const RunningChild&) = delete;
    RunningChild& operator=(const RunningChild&) = delete;

    [[nodiscard]] pid_t id() const { return child_.id(); }
    [[nodiscard]] bool has_ended();
    // Of it alone.
    void send(int signal);
    // Waits; 128 + signal if it ended by one.
    [[nodiscard]] int exit_code();
    // After it has ended.
    [[nodiscard]] std::string output() const { return child_.output(); }

private:
    Child child_;
    std::optional<int> status_;
};

// `accrue work`, as somebody would start it who was invited.
[[nodiscard]] std::unique_ptr<RunningChild> join_run(const Invitation& invitation, const std::string& name);

}  // namespace accrue::soaking
