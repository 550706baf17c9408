#include "accrue/dist/waiting_calls.h"

#include <vector>

namespace accrue {
namespace {

// More than any run has workers: whoever opens so many waits for nothing.
constexpr size_t kMostWaitingCalls = 4096;
// A call whose time is over hears so not much later.
constexpr std::chrono::milliseconds kLongestPause{100};

}  // namespace

WaitingCalls::WaitingCalls(CoordinatorDesk& desk) : desk_(desk), thread_([this] { run(); }) {}

void WaitingCalls::end() {
    if (ends_.exchange(true)) {
        return;
    }
    desk_.note_change();
    thread_.join();
    std::list<WaitingCall*> left;
    {
        const std::lock_guard lock(mutex_);
        left.swap(calls_);
    }
    for (WaitingCall* const call : left) {
        call->give_up();
        call->finish();
    }
}

void WaitingCalls::take(WaitingCall& call) {
    std::vector<WaitingCall*> finished;
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(calls_, [&](WaitingCall* older) {
            const bool is_replaced = !call.replaces.empty() && older->replaces == call.replaces;
            if (is_replaced) {
                finished.push_back(older);
            }
            return is_replaced;
        });
        const bool has_no_room = ends_ || calls_.size() >= kMostWaitingCalls;
        if (has_no_room) {
            call.give_up();
        }
        if (has_no_room || call.is_ready()) {
            finished.push_back(&call);
        } else {
            calls_.push_back(&call);
        }
    }
    for (WaitingCall* const each : finished) {
        each->finish();
    }
}

void WaitingCalls::cancel(WaitingCall& call) {
    {
        const std::lock_guard lock(mutex_);
        if (std::erase(calls_, &call) == 0) {
            return;  // it is being finished
        }
    }
    call.finish();
}

void WaitingCalls::run() {
    int64_t seen = 0;
    while (!ends_) {
        seen = desk_.changes_after(seen, kLongestPause);
        finish_what_is_ready();
    }
}

void WaitingCalls::finish_what_is_ready() {
    std::vector<WaitingCall*> ready;
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(calls_, [&](WaitingCall* call) {
            const bool is_ready = call->is_ready() || Clock::now() >= call->until;
            if (is_ready) {
                ready.push_back(call);
            }
            return is_ready;
        });
    }
    for (WaitingCall* const call : ready) {
        call->finish();
    }
}

}  // namespace accrue
