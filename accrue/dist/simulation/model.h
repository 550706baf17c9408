#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "accrue/accumulate/ledger.h"
#include "accrue/accumulate/window_record.h"

namespace accrue::simulation {

inline constexpr size_t kElements = 6;
using Integers = std::array<uint64_t, kElements>;

// What a worker has trained so far.
struct State {
    int64_t step = -1;  // -1 = it has no weights
    Integers weights = {};
    bool operator==(const State&) const = default;
};

// What a worker has of an open window.
struct Sums {
    WindowRecord record = {};
    Integers integers = {};
    GrainLedger ledger;
};

// A training run so small that its result is known: six weights, windows of one to sixteen grains, some of which are replayed. A
// grain's gradient follows from the weights, the step, the replay and its number, as in a true run.
class Model {
public:
    explicit Model(uint64_t seed);

    [[nodiscard]] Sums open_window(int64_t step, int64_t replay) const;
    // Once for each grain of the window.
    void add_grain(const State& state, int64_t grain, Sums& sums) const;
    [[nodiscard]] static bool must_replay(const GrainLedger& everyone);
    [[nodiscard]] State updated(const State& state, const Integers& sums) const;

    // What one process alone gets.
    [[nodiscard]] const State& after(int64_t step);

private:
    [[nodiscard]] Sums whole_window(const State& state, int64_t replay) const;

    uint64_t seed_;
    std::vector<State> states_;  // by step
};

}  // namespace accrue::simulation
