#include "accrue/cli/child_process.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

std::string read_all(int descriptor) {
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = read(descriptor, piece.data(), piece.size())) > 0;) {
        text.append(piece.data(), static_cast<size_t>(got));
    }
    return text;
}

// Why a child did not do its work; empty if it did.
std::string failure_of(int status) {
    if (WIFSIGNALED(status)) {
        return cat("was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                   "); signal 9 often means that the machine ran out of memory");
    }
    return WEXITSTATUS(status) == 0 ? "" : "failed, see above";
}

}  // namespace

std::string output_of_this_program(const std::vector<std::string>& arguments) {
    std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> copies = arguments;
    std::vector<char*> words = {program.data()};
    std::transform(copies.begin(), copies.end(), std::back_inserter(words),
                   [](std::string& word) { return word.data(); });
    words.push_back(nullptr);

    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Error(cat("a pipe could not be made: ", std::strerror(errno), "."));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    pid_t child = -1;
    const int problem = posix_spawn(&child, program.c_str(), &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string output = problem == 0 ? read_all(ends[0]) : "";
    close(ends[0]);
    if (problem != 0) {
        throw Error(cat(program, " could not be started again: ", std::strerror(problem), "."));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (const std::string failure = failure_of(status); !failure.empty()) {
        throw Error(cat("a process of the measurement ", failure, "."));
    }
    return output;
}

std::string command_line() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string words{std::istreambuf_iterator<char>(file), {}};
    if (words.ends_with('\0')) {
        words.pop_back();
    }
    std::replace(words.begin(), words.end(), '\0', ' ');
    return words;
}

}  // namespace accrue
