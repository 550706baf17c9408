#include "tests/soaking/child.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

constexpr int kMostOutput = 1 << 20;  // the largest pipe that anybody may have
constexpr auto kLongestRun = std::chrono::minutes(5);

struct Pipe {
    int read_end = -1;
    int write_end = -1;
};

Pipe make_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Error(cat("a pipe could not be made: ", std::generic_category().message(errno), "."));
    }
    return {.read_end = ends[0], .write_end = ends[1]};
}

void limit_files(int64_t bytes) {
    if (bytes > 0) {
        const rlimit limit = {.rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = static_cast<rlim_t>(bytes)};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
}

bool install(std::vector<sock_filter>& filter) {
    const sock_fprog program = {.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
    return filter.empty() || (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                              syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

}  // namespace

Child::Child(const Command& command, const Limits& limits) {
    const Pipe go = make_pipe();
    const Pipe printed = make_pipe();
    fcntl(printed.write_end, F_SETPIPE_SZ, kMostOutput);
    fcntl(printed.read_end, F_SETFL, O_NONBLOCK);
    std::vector<std::string> words = {command.program.string()};
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    std::vector<sock_filter> filter = limits.filter;
    id_ = fork();
    if (id_ == 0) {
        setpgid(0, 0);
        dup2(printed.write_end, STDOUT_FILENO);
        dup2(printed.write_end, STDERR_FILENO);
        close(go.write_end);
        char byte = 0;
        const bool told = read(go.read_end, &byte, 1) == 1;
        limit_files(limits.file_bytes);
        if (told && install(filter)) {
            execv(pointers[0], pointers.data());
        }
        _exit(127);
    }
    if (id_ > 0) {
        setpgid(id_, id_);  // here too, because nobody knows who comes first
    }
    close(go.read_end);
    close(printed.write_end);
    go_ = go.write_end;
    printed_ = printed.read_end;
    if (id_ < 0) {
        throw Error(cat("a process could not be started: ", std::generic_category().message(errno), "."));
    }
}

Child::~Child() {
    close(go_);
    close(printed_);
}

void Child::begin() const {
    if (write(go_, "x", 1) != 1) {
        throw Error("a process that was to begin is gone.");
    }
}

std::string Child::output() const {
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = read(printed_, piece.data(), piece.size())) > 0;) {
        text.append(piece.data(), static_cast<size_t>(got));
    }
    return text;
}

Watchdog::Watchdog(pid_t process) {
    thread_ = std::jthread([this, process](const std::stop_token& done) {
        std::unique_lock lock(mutex_);
        ended_.wait_for(lock, done, kLongestRun, [] { return false; });
        if (!done.stop_requested()) {
            bitten_ = true;
            kill(process, SIGKILL);
        }
    });
}

Watchdog::~Watchdog() {
    thread_.request_stop();
}

}  // namespace accrue::soaking
