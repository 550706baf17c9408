#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

namespace accrue {

// Runs this program again with other arguments and returns what it wrote to its standard output; its errors go where ours
// do. Nothing has been started before that could make the child's memory look larger. An error if it fails.
[[nodiscard]] std::string output_of_this_program(const std::vector<std::string>& arguments);

// The SHA-256 of a file, as `sha256sum` prints it.
[[nodiscard]] std::string sha256_of_file(const std::filesystem::path& file);

// This program once more, running beside us. It is killed if it still runs when this goes.
class ChildProcess {
public:
    // All it prints, errors too, goes to a file. Where a folder for temporary files is named, it and its children use that.
    ChildProcess(const std::vector<std::string>& arguments, const std::filesystem::path& output,
                 const std::filesystem::path& temporary = {});
    ~ChildProcess();
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    [[nodiscard]] bool has_ended();
    void send(int signal) const;
    // Processes that it has started and that live.
    [[nodiscard]] std::vector<pid_t> children();
    // Its exit code, or 128 and the signal that ended it.
    [[nodiscard]] int wait();

private:
    pid_t id_ = -1;
    int status_ = 0;
    bool ended_ = false;
};

// Of what a process of this program has said, the last line: why it ended.
[[nodiscard]] std::string last_words_in(const std::filesystem::path& output);

// The words by which this program was called, with spaces between.
[[nodiscard]] std::string command_line();

}  // namespace accrue
