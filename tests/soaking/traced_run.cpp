#include "tests/soaking/traced_run.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include "tests/soaking/child.h"
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

// How long a frozen process stays so.
constexpr auto kFrozen = std::chrono::milliseconds(30);

int exit_code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// What a stop of a thread is for (ptrace(2), "Stopped states").
int event_of(int status) {
    return status >> 16;
}

bool is_group_stop(int status) {
    return event_of(status) == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
}

// Follows all threads of one process and disturbs it when its time has come.
class Tracer {
public:
    Tracer(pid_t process, const Disturbance& disturbance, const std::function<void()>& meanwhile, Outcome& outcome)
        : process_(process), disturbance_(disturbance), meanwhile_(meanwhile), outcome_(outcome) {}

    // Returns when the process has ended.
    void follow() {
        int status = 0;
        for (pid_t thread = 0; (thread = next(status)) > 0;) {
            if (WIFSTOPPED(status)) {
                go_on(thread, status);
            } else if (thread == process_) {
                outcome_.exit_code = exit_code_of(status);
            }
        }
    }

private:
    [[nodiscard]] pid_t next(int& status) const {
        pid_t thread = -1;
        do {
            thread = waitpid(-process_, &status, __WALL);
        } while (thread < 0 && errno == EINTR);
        return thread;
    }

    // Lets a stopped thread run again.
    void go_on(pid_t thread, int status) {
        if (is_group_stop(status)) {
            ptrace(PTRACE_LISTEN, thread, nullptr, nullptr);
            thaw();
            return;
        }
        if (event_of(status) == PTRACE_EVENT_SECCOMP) {
            at_call(thread);
        }
        const bool is_signal = event_of(status) == 0;
        const long signal = is_signal ? WSTOPSIG(status) : 0;
        // A thread that was killed meanwhile is nobody's any more.
        ptrace(PTRACE_CONT, thread, nullptr, signal);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    }

    void thaw() {
        if (!thawed_) {
            thawed_ = true;
            std::this_thread::sleep_for(kFrozen);
            kill(process_, SIGCONT);
        }
    }

    void at_call(pid_t thread) {
        SystemCall call(thread);
        const bool changes = call.changes_files();
        outcome_.changes += changes ? 1 : 0;
        counted_ += changes || disturbance_.every_call_counts ? 1 : 0;
        if (disk_is_full_ && call.needs_room()) {
            call.fail(ENOSPC);
            return;
        }
        const bool now = !outcome_.landed && is_due(call);
        if (now) {
            outcome_.landed = true;
            outcome_.where = call.text();
            disturb(call);
        }
        if (changes && !(now && disturbance_.kind == Kind::power_cut)) {
            outcome_.unsynced.note(thread, call);
        }
    }

    [[nodiscard]] bool is_due(const SystemCall& call) const {
        switch (disturbance_.kind) {
            case Kind::none:
            case Kind::small_disk:
            case Kind::size_limit:
                return false;
            case Kind::full_disk:  // nobody notices before something needs room
                return counted_ >= disturbance_.call && call.needs_room();
            default:
                return counted_ == disturbance_.call && (disturbance_.every_call_counts || call.changes_files());
        }
    }

    void disturb(SystemCall& call) {
        switch (disturbance_.kind) {
            case Kind::kill:
            case Kind::power_cut:
                kill(process_, SIGKILL);
                break;
            case Kind::stop:
            case Kind::hangup:
                kill(process_, disturbance_.signal);
                break;
            case Kind::freeze:
                kill(process_, SIGSTOP);
                break;
            case Kind::fault:
                fail(call);
                break;
            case Kind::full_disk:
                // A disk that becomes full takes a part of a write.
                disk_is_full_ = true;
                if (!call.halve()) {
                    call.fail(ENOSPC);
                }
                break;
            case Kind::second:
                meanwhile_();
                break;
            default:
                break;
        }
    }

    void fail(SystemCall& call) {
        const std::vector<int> errors = call.possible_errors();
        const int error = errors[disturbance_.pick % errors.size()];
        outcome_.where = cat(strerrorname_np(error), " from ", outcome_.where);
        call.fail(error);
    }

    pid_t process_;
    const Disturbance& disturbance_;
    const std::function<void()>& meanwhile_;
    Outcome& outcome_;
    int64_t counted_ = 0;
    bool disk_is_full_ = false;
    bool thawed_ = false;
};

void take(pid_t process) {
    const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                         PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP;
    if (ptrace(PTRACE_SEIZE, process, nullptr, options) != 0) {  // NOLINT(cppcoreguidelines-pro-type-vararg)
        const int error = errno;
        kill(process, SIGKILL);
        waitpid(process, nullptr, 0);
        throw Error(cat("ptrace is not allowed here: ", std::generic_category().message(error), "."));
    }
}

}  // namespace

Outcome run_traced(const Command& command, const Disturbance& disturbance, const std::function<void()>& meanwhile) {
    const auto start = Clock::now();
    Outcome outcome;
    const Child child(command, {.filter = disturbance.every_call_counts ? filter_of_all_calls() : filter_of_changes(),
                                .file_bytes = disturbance.kind == Kind::size_limit ? disturbance.room_bytes : 0});
    take(child.id());
    {
        const Watchdog watchdog(child.id());
        child.begin();
        Tracer(child.id(), disturbance, meanwhile, outcome).follow();
        outcome.hung = watchdog.has_bitten();
    }
    outcome.output = child.output();
    outcome.seconds = seconds_since(start);
    return outcome;
}

Outcome run_timed(const Command& command, const Disturbance& disturbance, double expected_seconds) {
    const auto start = Clock::now();
    Outcome outcome;
    const Child child(command, {.filter = {}, .file_bytes = 0});
    int status = 0;
    {
        const Watchdog watchdog(child.id());
        child.begin();
        if (is_signal(disturbance.kind)) {
            std::this_thread::sleep_for(std::chrono::duration<double>(disturbance.moment * expected_seconds));
            kill(child.id(), disturbance.kind == Kind::kill ? SIGKILL : disturbance.signal);
        }
        while (waitpid(child.id(), &status, 0) < 0 && errno == EINTR) {
        }
        outcome.hung = watchdog.has_bitten();
    }
    outcome.exit_code = exit_code_of(status);
    outcome.landed = disturbance.kind != Kind::none && outcome.exit_code != 0;
    outcome.output = child.output();
    outcome.seconds = seconds_since(start);
    return outcome;
}

bool can_trace() {
    try {
        const Outcome outcome = run_traced({.program = "/bin/true", .arguments = {}},
                                           {.kind = Kind::kill, .call = 2, .every_call_counts = true});
        return outcome.landed && outcome.exit_code == 128 + SIGKILL;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace accrue::soaking
