#pragma once

#include <cstdint>
#include <vector>

#include "accrue/accumulate/ledger.h"
#include "accrue/accumulate/window_record.h"

namespace accrue {

// Grains that a worker will probably compute next. Nothing is promised: who prepares them may have done so for nothing.
struct LikelyGrains {
    enum class Of { this_window, next_window };
    Of window = Of::this_window;
    std::vector<int64_t> grains;  // of a next window, perhaps more than it has

    bool operator==(const LikelyGrains&) const = default;
};

// Which grains of the open window are mine. Of all workers together, each grain is given to exactly one that finishes it.
// Each method may wait for other workers. If it throws, because one of them is gone, the window stays open and the sums
// hold what was finished: begin() asks again for the rest.
class Assignment {
public:
    virtual ~Assignment() = default;

    // Everybody begins the window, or goes on with it, and says which grains are in the own sums: after a resume or a failure
    // some, after a replay none. The same record for everybody.
    virtual void begin(const WindowRecord& window, const GrainLedger& mine) = 0;

    // The grains of my next micro-batch, ascending, `most` at most. With this call those of the call before are finished,
    // and these are begun: only before could they have been taken back and given to another. None: nothing is left for me,
    // or somebody wants to stop.
    [[nodiscard]] virtual std::vector<int64_t> next(int64_t most) = 0;

    // What next(most) would give after that.
    [[nodiscard]] virtual LikelyGrains likely_next(int64_t most) const = 0;
};

}  // namespace accrue
