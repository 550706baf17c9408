#include "tests/running_program.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "tests/support.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/clock.h"
#include "accrue/base/file.h"

namespace accrue::testing {
namespace {

constexpr double kMostSeconds = 240;

std::vector<char*> words_of(std::vector<std::string>& texts) {
    std::vector<char*> words;
    for (std::string& text : texts) {
        words.push_back(text.data());
    }
    words.push_back(nullptr);
    return words;
}

}  // namespace

RunningProgram::RunningProgram(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
    std::vector<std::string> texts = {accrue_program()};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    const std::vector<char*> words = words_of(texts);
    std::vector<std::string> variables = environment;
    for (char** each = environ; *each != nullptr; ++each) {
        variables.emplace_back(*each);
    }
    const std::vector<char*> variable_words = words_of(variables);
    const std::string file = folder_ / "output";
    id_ = fork();
    if (id_ == 0) {
        for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM}) {
            std::signal(signal, SIG_DFL);
        }
        const int output = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        close(output);
        execve(words.front(), words.data(), variable_words.data());
        _exit(127);
    }
}

RunningProgram::~RunningProgram() {
    if (!has_ended()) {
        send(SIGKILL);
        waitpid(id_, &status_, 0);
    }
}

std::string RunningProgram::output() const {
    const std::filesystem::path file = folder_ / "output";
    return std::filesystem::exists(file) ? read_text(file) : "";
}

bool RunningProgram::has_ended() {
    has_ended_ = has_ended_ || waitpid(id_, &status_, WNOHANG) == id_;
    return has_ended_;
}

bool RunningProgram::says(const std::string& words) {
    const auto start = Clock::now();
    for (bool is_last = false; !is_last;) {
        is_last = has_ended() || seconds_since(start) > kMostSeconds;
        if (output().find(words) != std::string::npos) {
            return true;
        }
        usleep(10'000);
    }
    return false;
}

void RunningProgram::send(int signal) const {
    if (!has_ended_) {
        kill(id_, signal);
    }
}

int RunningProgram::wait() {
    const auto start = Clock::now();
    while (!has_ended()) {
        if (seconds_since(start) > kMostSeconds) {
            send(SIGKILL);
        }
        usleep(5'000);
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

std::vector<pid_t> workers_of_run(const std::filesystem::path& folder) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        std::ifstream file(entry.path() / "cmdline", std::ios::binary);
        std::string words;
        std::getline(file, words, '\n');  // nothing, where the process has just gone
        if (std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; }) &&
            words.find(std::string("\0work\0--join", 12)) != std::string::npos &&
            words.find(folder.string() + '\0') != std::string::npos) {
            found.push_back(std::stoi(name));
        }
    }
    return found;
}

}  // namespace accrue::testing
