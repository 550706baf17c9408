#pragma once

#include <optional>

#include "accrue/accumulate/gradient_sum.h"
#include "accrue/accumulate/ledger.h"

namespace accrue {

// What all workers know of a window after they met.
struct Agreement {
    const GrainLedger&
        everyone;        // valid until the next call of the reducer, and as long as the ledgers that were given
    bool stops = false;  // somebody wants to stop: if grains are missing, the window ends here for everybody
};

// Everybody's part of a window becomes one. All workers call the same methods in the same order, and each call waits for
// everybody. If one throws, because a worker is gone, the own sums are as they were before, and so is everybody's.
class Reducer {
public:
    virtual ~Reducer() = default;

    enum class Wish { go_on, stop };
    // Everybody's ledger, from mine. Whoever wishes to stop comes as soon as it likes: from then on the assignment gives
    // nobody anything, so that the others come too. An error if a grain is in two ledgers.
    [[nodiscard]] virtual Agreement agree(const GrainLedger& mine, Wish wish) = 0;

    // Everybody's sums in the place of mine, with the ledger that was agreed on. Exact sums only. Where workers share the state,
    // those of the ranges that are kept here.
    virtual void add_everyones(GradientSum& sum) = 0;
    // Then the norm of the mean gradient, where nobody has all of everybody's sums.
    [[nodiscard]] virtual std::optional<double> norm() const { return std::nullopt; }

    enum class Role { keeper, other };
    // The same for one of the workers, when a window ends before it is complete. The keeper's sums are then everybody's;
    // all others must begin theirs anew, so that nothing is counted twice.
    [[nodiscard]] virtual Role gather(GradientSum& sum) = 0;
};

}  // namespace accrue
