#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "accrue/dist/messages.h"

namespace accrue {

// From what a worker hears of rosters with its signs of life: the one that it is in cannot go on with all of its members. Said
// once of each. For several threads.
class RosterWatch {
public:
    using Told = std::function<void(int64_t roster)>;
    // Nothing: nobody is told any more, and a call that was under way has returned.
    void tell(Told told);
    // The worker is in that roster now.
    void enter(int64_t term, int64_t roster);
    // What was heard may be older than the roster that the worker is in.
    void hear(const RosterHealth& health);

private:
    std::mutex mutex_;
    Told told_;
    int64_t term_ = 0;
    int64_t roster_ = 0;
    int64_t told_of_ = 0;
};

}  // namespace accrue
