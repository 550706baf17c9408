#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accumulate/window_record.h"
#include "accrue/base/error.h"

namespace accrue {

// An answer, or none yet: ask again when something has happened.
template <class T>
using Soon = std::optional<T>;

// Somebody of the roster is gone, or somebody new is there: the own sums are as they were, and all meet again.
class RosterChanged final : public Error {
public:
    explicit RosterChanged(const std::string& why) : Error(why) {}
};

// Where a worker's call belongs. One from another term or roster is answered with RosterChanged, however late it comes.
struct CallPlace {
    std::string worker;
    int64_t term = 0;    // of the coordinator: grows with each of its starts
    int64_t roster = 0;  // counted from 1; each has its members, and a worker that is no longer one has another
    // Grows from 1 on with each call of this worker, whatever it asks for. A call that is repeated, because its answer did not
    // come, keeps its number and gets the same answer. One of a smaller number than the newest is a late copy: it changes
    // nothing, and is answered with RosterChanged, for which nobody waits.
    int64_t call = 0;
    bool operator==(const CallPlace&) const = default;
};

// Of the newest roster: what a worker's sign of life is answered with.
struct RosterHealth {
    int64_t term = 0;
    int64_t roster = 0;
    // One of its members is gone without a word, and all others meet again. Who left had sent all that others wait for.
    bool lacks_member = false;
};

// A worker comes to meet the others: at the start, and whenever a roster has ended. It asks the same until it gets an answer.
struct MeetRequest {
    std::string worker;
    int64_t term = 0;    // of the roster that it was in last; 0 = none
    int64_t roster = 0;  // that it was in last; 0 = none
    int64_t step = -1;   // optimizer steps that its weights have seen; -1 = it has none yet
    bool operator==(const MeetRequest&) const = default;
};

// Who takes part until something changes. Ranks are places in `workers`, from 0 on without gaps, the same for everybody.
struct Roster {
    int64_t term = 0;
    int64_t number = 0;
    int64_t rank = 0;                  // of the worker that asked
    std::vector<std::string> workers;  // by rank
    std::vector<int64_t> steps;        // that each one's weights have seen; -1 = none
    // No window was begun without it since the roster that it was in last: its sums of the open window count. All others begin
    // with empty sums, because their grains are, or were, given to others.
    bool keeps_sums = false;
};

// What all members do next, as whoever leads the run says: a number that grows by one, and words that only that one and the
// workers understand.
struct Task {
    int64_t number = 0;
    std::string words;
    bool operator==(const Task&) const = default;
};

// Sums modulo 2^64 of an exchange, each range of elements (an owner's) by itself: of what a worker gave, and of what it holds
// now. Over all workers, those of what was given add up to that of each one's total, or something was changed on the way.
struct ExchangeChecks {
    std::vector<uint64_t> given;
    std::vector<uint64_t> total;
};

// May the window be applied?
struct Verdict {
    bool commits = false;
    std::string fault;  // what did not add up, and whose it is, where it does not commit
};

}  // namespace accrue
