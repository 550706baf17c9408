#include "accrue/dist/simulation/model.h"

#include "accrue/base/random.h"

namespace accrue::simulation {
namespace {

// What random numbers are for.
enum class Use : uint64_t { weight, grains, gradient, update, replay };

constexpr float kTooLarge = 1e30F;

}  // namespace

Model::Model(uint64_t seed) : seed_(seed), states_(1) {
    states_.front().step = 0;
    for (size_t i = 0; i < kElements; ++i) {
        states_.front().weights[i] = mix(seed_, static_cast<uint64_t>(Use::weight), i);
    }
}

Sums Model::open_window(int64_t step, int64_t replay) const {
    const auto grains = static_cast<int64_t>(1 + mix(seed_, static_cast<uint64_t>(Use::grains), step) % 16);
    return {
        .record = {.window = {.first = {.epoch = 0, .place = step}, .samples = grains}, .step = step, .replay = replay},
        .integers = {},
        .ledger = GrainLedger(grains, 1)};
}

void Model::add_grain(const State& state, int64_t grain, Sums& sums) const {
    const int64_t step = sums.record.step;
    const int64_t replay = sums.record.replay;
    uint64_t hash = mix(seed_, static_cast<uint64_t>(Use::gradient), step, replay, grain);
    for (size_t i = 0; i < kElements; ++i) {
        hash = mix(hash, state.weights[i]);
        sums.integers[i] += hash;
    }
    // The last grain of every third window is too large for its first units.
    const bool is_too_large = replay == 0 && grain + 1 == sums.ledger.grains() &&
                              mix(seed_, static_cast<uint64_t>(Use::replay), step) % 3 == 0;
    sums.ledger.grain(grain) = {.finished = true,
                                .loss_sum = static_cast<double>(hash % 1000),
                                .counted_tokens = static_cast<int64_t>(hash % 7)};
    sums.ledger.record(grain, 0).largest = is_too_large ? kTooLarge : 1.0F;
}

bool Model::must_replay(const GrainLedger& everyone) {
    return everyone.largest().front() == kTooLarge;
}

State Model::updated(const State& state, const Integers& sums) const {
    State next{.step = state.step + 1, .weights = {}};
    for (size_t i = 0; i < kElements; ++i) {
        next.weights[i] = mix(seed_, static_cast<uint64_t>(Use::update), state.weights[i] + sums[i]);
    }
    return next;
}

Sums Model::whole_window(const State& state, int64_t replay) const {
    Sums sums = open_window(state.step + 1, replay);
    for (const int64_t grain : sums.ledger.missing()) {
        add_grain(state, grain, sums);
    }
    return sums;
}

const State& Model::after(int64_t step) {
    while (std::ssize(states_) <= step) {
        Sums sums = whole_window(states_.back(), 0);
        if (must_replay(sums.ledger)) {
            sums = whole_window(states_.back(), 1);
        }
        states_.push_back(updated(states_.back(), sums.integers));
    }
    return states_[static_cast<size_t>(step)];
}

}  // namespace accrue::simulation
