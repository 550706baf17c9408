#include "accrue/cli/child_process.h"

#include <algorithm>
#include <array>
#include <csignal>
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

std::filesystem::path this_program() {
    return std::filesystem::read_symlink("/proc/self/exe");
}

// What a child does with its files before it begins.
class FileActions {
public:
    FileActions() { posix_spawn_file_actions_init(&actions_); }
    ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;

    void duplicate(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
    void write_to(const std::filesystem::path& file, int descriptor) {
        posix_spawn_file_actions_addopen(&actions_, descriptor, file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    }
    [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

private:
    posix_spawn_file_actions_t actions_{};
};

// What this program ignores (see signals.h) is not ignored in a child: other programs expect the usual.
class UsualSignals {
public:
    UsualSignals() {
        sigset_t usual;
        sigemptyset(&usual);
        sigaddset(&usual, SIGPIPE);
        sigaddset(&usual, SIGXFSZ);
        posix_spawnattr_init(&attributes_);
        posix_spawnattr_setsigdefault(&attributes_, &usual);
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
    }
    ~UsualSignals() { posix_spawnattr_destroy(&attributes_); }
    UsualSignals(const UsualSignals&) = delete;
    UsualSignals& operator=(const UsualSignals&) = delete;
    [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

private:
    posix_spawnattr_t attributes_{};
};

// Starts a program, found along PATH where its name has no folder.
pid_t start(const std::string& program, const std::vector<std::string>& arguments, const FileActions& actions) {
    std::vector<std::string> copies = {program};
    copies.insert(copies.end(), arguments.begin(), arguments.end());
    std::vector<char*> words;
    std::transform(copies.begin(), copies.end(), std::back_inserter(words),
                   [](std::string& word) { return word.data(); });
    words.push_back(nullptr);
    pid_t child = -1;
    const UsualSignals signals;
    if (const int problem =
            posix_spawnp(&child, program.c_str(), actions.get(), signals.get(), words.data(), environ)) {
        throw Error(cat(program, " could not be started: ", std::strerror(problem), "."));
    }
    return child;
}

int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

std::string output_of(const std::string& program, const std::vector<std::string>& arguments) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Error(cat("a pipe could not be made: ", std::strerror(errno), "."));
    }
    FileActions actions;
    actions.duplicate(ends[1], STDOUT_FILENO);
    pid_t child = -1;
    try {
        child = start(program, arguments, actions);
    } catch (const Error&) {
        close(ends[0]);
        close(ends[1]);
        throw;
    }
    close(ends[1]);
    std::string output = read_all(ends[0]);
    close(ends[0]);
    if (const std::string failure = failure_of(wait_for(child)); !failure.empty()) {
        throw Error(cat(program, " ", failure, "."));
    }
    return output;
}

}  // namespace

std::string output_of_this_program(const std::vector<std::string>& arguments) {
    return output_of(this_program().string(), arguments);
}

std::string sha256_of_file(const std::filesystem::path& file) {
    constexpr size_t kDigits = 64;
    return output_of("sha256sum", {file.string()}).substr(0, kDigits);
}

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, const std::filesystem::path& output) {
    FileActions actions;
    actions.write_to(output, STDOUT_FILENO);
    actions.duplicate(STDOUT_FILENO, STDERR_FILENO);
    id_ = start(this_program().string(), arguments, actions);
}

ChildProcess::~ChildProcess() {
    if (!has_ended()) {
        send(SIGKILL);
        (void)wait();
    }
}

bool ChildProcess::has_ended() {
    ended_ = ended_ || waitpid(id_, &status_, WNOHANG) == id_;
    return ended_;
}

void ChildProcess::send(int signal) const {
    if (!ended_) {
        kill(id_, signal);
    }
}

int ChildProcess::wait() {
    if (!ended_) {
        status_ = wait_for(id_);
        ended_ = true;
    }
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
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
