#pragma once

#include <span>

#include "accrue/dist/workers.h"

namespace accrue {

// One process alone: every grain is its own.
class AloneAssignment final : public Assignment {
public:
    void begin(const WindowRecord& window, const GrainLedger& mine) override;
    [[nodiscard]] std::vector<int64_t> next(int64_t most) override;
    [[nodiscard]] LikelyGrains likely_next(int64_t most) const override;

private:
    // Of what is left, at most so many.
    [[nodiscard]] std::span<const int64_t> rest(int64_t most) const;

    std::vector<int64_t> grains_;
    size_t given_ = 0;
};

// One process alone: its sums are everybody's. Costs nothing.
class AloneReducer final : public Reducer {
public:
    [[nodiscard]] Agreement agree(const GrainLedger& mine, Wish wish) override {
        return {.everyone = mine, .stops = wish == Wish::stop};
    }
    void add_everyones(GradientSum& /*sum*/) override {}
    [[nodiscard]] Role gather(GradientSum& /*sum*/) override { return Role::keeper; }
};

// Both.
class Alone {
public:
    [[nodiscard]] Workers workers() { return {.assignment = assignment_, .reducer = reducer_}; }

private:
    AloneAssignment assignment_;
    AloneReducer reducer_;
};

}  // namespace accrue
