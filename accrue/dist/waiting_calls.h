#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "accrue/base/clock.h"
#include "accrue/dist/coordinator_desk.h"

namespace accrue {

// A call of a worker that waits for its answer. Each is ended exactly once, by finish().
class WaitingCall {
public:
    virtual ~WaitingCall() = default;
    // Is there anything to say? Then that is prepared. Calls nobody back.
    [[nodiscard]] virtual bool is_ready() = 0;
    // Says so, or that there is nothing yet. The call may be gone afterwards.
    virtual void finish() = 0;
    // The coordinator has ended: that is what there is to say.
    virtual void give_up() = 0;

    Clock::time_point until;    // then there is nothing yet
    std::string replaces = {};  // an older call with the same words, for which nobody waits any more; empty = none
};

// All calls that wait, without a thread for each: one thread asks for all of them again, whenever something has changed.
class WaitingCalls {
public:
    explicit WaitingCalls(CoordinatorDesk& desk);
    ~WaitingCalls() { end(); }
    WaitingCalls(const WaitingCalls&) = delete;
    WaitingCalls& operator=(const WaitingCalls&) = delete;

    // Finishes the call, now or later. It stays its owner's.
    void take(WaitingCall& call);
    // Nobody waits for it any more.
    void cancel(WaitingCall& call);
    // Those that wait are given up, and so is whatever comes later.
    void end();

private:
    void run();
    void finish_what_is_ready();

    CoordinatorDesk& desk_;
    std::mutex mutex_;  // never held while a call is finished: gRPC may then call back
    std::list<WaitingCall*> calls_;
    std::atomic<bool> ends_ = false;
    std::thread thread_;  // after all that it uses
};

}  // namespace accrue
