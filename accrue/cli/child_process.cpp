#include "accrue/cli/child_process.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

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

// As the system wants texts: pointers, the last one null.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    std::transform(texts.begin(), texts.end(), std::back_inserter(pointers),
                   [](std::string& text) { return text.data(); });
    pointers.push_back(nullptr);
    return pointers;
}

// What this process has; with another TMPDIR where one is named.
std::vector<std::string> environment_with(const std::filesystem::path& temporary) {
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        if (temporary.empty() || !std::string_view(*variable).starts_with("TMPDIR=")) {
            variables.emplace_back(*variable);
        }
    }
    if (!temporary.empty()) {
        variables.push_back("TMPDIR=" + temporary.string());
    }
    return variables;
}

// Starts a program, found along PATH where its name has no folder.
pid_t start(const std::string& program, const std::vector<std::string>& arguments, const FileActions& actions,
            const std::filesystem::path& temporary = {}) {
    std::vector<std::string> copies = {program};
    copies.insert(copies.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables = environment_with(temporary);
    const std::vector<char*> words = pointers_to(copies);
    const std::vector<char*> environment = pointers_to(variables);
    pid_t child = -1;
    const UsualSignals signals;
    if (const int problem =
            posix_spawnp(&child, program.c_str(), actions.get(), signals.get(), words.data(), environment.data())) {
        throw Error(cat(program, " could not be started: ", std::strerror(problem), "."));
    }
    return child;
}

// By a line of /proc/PID/stat: number, name in brackets, state, parent. One that has ended (Z) lives no more.
bool is_child_of(pid_t parent, const std::filesystem::path& process) {
    std::ifstream file(process / "stat");
    std::string line;
    std::getline(file, line);  // nothing, where the process has just gone
    std::istringstream behind_name(line.substr(std::min(line.rfind(')') + 1, line.size())));
    char state = 'Z';
    pid_t its_parent = 0;
    behind_name >> state >> its_parent;
    return state != 'Z' && its_parent == parent;
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

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, const std::filesystem::path& output,
                           const std::filesystem::path& temporary) {
    FileActions actions;
    actions.write_to(output, STDOUT_FILENO);
    actions.duplicate(STDOUT_FILENO, STDERR_FILENO);
    id_ = start(this_program().string(), arguments, actions, temporary);
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

std::vector<pid_t> ChildProcess::children() {
    std::vector<pid_t> found;
    if (has_ended()) {
        return found;
    }
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        if (std::all_of(name.begin(), name.end(), [](char letter) { return letter >= '0' && letter <= '9'; }) &&
            is_child_of(id_, entry.path())) {
            found.push_back(std::stoi(name));
        }
    }
    return found;
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

std::string last_words_in(const std::filesystem::path& output) {
    std::ifstream file(output);
    std::string last;
    for (std::string line; std::getline(file, line);) {
        last = line.empty() ? last : line;
    }
    constexpr std::string_view kSays = "accrue: ";
    return last.starts_with(kSays) ? last.substr(kSays.size()) : last;
}

}  // namespace accrue
