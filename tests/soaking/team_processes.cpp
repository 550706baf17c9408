#include "tests/soaking/team_processes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;

// Of one that is gone, nothing.
std::string proc_text(pid_t process, const char* file) {
    try {
        std::ifstream stream(cat("/proc/", process, "/", file), std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), {}};
    } catch (const std::ios_base::failure&) {
        return "";
    }
}

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    std::istringstream stream(text);
    for (std::string word; std::getline(stream, word, '\0');) {
        words.push_back(word);
    }
    return words;
}

// "pid (name) state parent group ...", where the name may have anything in it.
bool is_of_group(pid_t process, pid_t group) {
    const std::string stat = proc_text(process, "stat");
    std::istringstream rest(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
    char state = 'Z';
    pid_t parent = 0;
    pid_t of = 0;
    rest >> state >> parent >> of;
    return of == group && state != 'Z' && state != 'X';
}

std::string word_after(const std::vector<std::string>& words, const std::string& option) {
    const auto found = std::find(words.begin(), words.end(), option);
    return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

}  // namespace

std::vector<pid_t> processes_of_group(pid_t group) {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        if (std::all_of(name.begin(), name.end(), [](char letter) { return letter >= '0' && letter <= '9'; }) &&
            is_of_group(std::stoi(name), group)) {
            found.push_back(std::stoi(name));
        }
    }
    return found;
}

std::vector<pid_t> workers_of_group(pid_t group) {
    std::vector<pid_t> found = processes_of_group(group);
    std::erase_if(found, [](pid_t process) {
        const auto words = words_of(proc_text(process, "cmdline"));
        return words.size() < 2 || words[1] != "work";
    });
    return found;
}

std::optional<Invitation> invitation_of(pid_t worker) {
    const auto words = words_of(proc_text(worker, "cmdline"));
    constexpr std::string_view kToken = "ACCRUE_WORKER_TOKEN=";
    const auto environment = words_of(proc_text(worker, "environ"));
    const auto token = std::find_if(environment.begin(), environment.end(),
                                    [&](const std::string& word) { return word.starts_with(kToken); });
    std::error_code gone;
    Invitation found{.program = fs::read_symlink(cat("/proc/", worker, "/exe"), gone),
                     .address = word_after(words, "--join"),
                     .run = word_after(words, "--run"),
                     .token = token == environment.end() ? "" : token->substr(kToken.size())};
    if (gone || found.address.empty() || found.token.empty()) {
        return std::nullopt;
    }
    return found;
}

RunningChild::RunningChild(const Command& command) : child_(command, {.filter = {}, .file_bytes = 0}) {
    child_.begin();
}

RunningChild::~RunningChild() {
    if (!has_ended()) {
        kill(-id(), SIGKILL);
        (void)exit_code();
    }
}

bool RunningChild::has_ended() {
    int status = 0;
    if (!status_ && waitpid(id(), &status, WNOHANG) == id()) {
        status_ = status;
    }
    return status_.has_value();
}

void RunningChild::send(int signal) {
    if (!has_ended()) {
        kill(id(), signal);
    }
}

int RunningChild::exit_code() {
    for (int status = 0; !status_;) {
        if (waitpid(id(), &status, 0) == id()) {
            status_ = status;
        } else if (errno != EINTR) {
            throw Error("a process that was started is nobody's child");
        }
    }
    return WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_) : WEXITSTATUS(*status_);
}

std::unique_ptr<RunningChild> join_run(const Invitation& invitation, const std::string& name) {
    setenv("ACCRUE_WORKER_TOKEN", invitation.token.c_str(), 1);
    auto joiner = std::make_unique<RunningChild>(
        Command{.program = invitation.program,
                .arguments = {"work", "--join", invitation.address, "--name", name, "--run", invitation.run, "--parent",
                              std::to_string(getpid())}});
    unsetenv("ACCRUE_WORKER_TOKEN");
    return joiner;
}

}  // namespace accrue::soaking
