#pragma once

#include <algorithm>
#include <optional>

#include "accrue/accumulate/window.h"
#include "accrue/train/inputs.h"
#include "accrue/train/plan_choice.h"

namespace accrue {

// The memory in which one window is computed again and again: an engine with its micro-batch, and at most one more sum.
// All of it, with the process itself, stays within compute.memory and what the machine can give.
class LabMemory {
public:
    // Chosen as for a run: nothing recomputed and many grains at once where that fits; else fewer grains, then what is
    // faster first. An error if no plan fits: it names the smallest.
    LabMemory(const RunInputs& inputs, const Window& window, int threads, const MemoryBound& machine);

    // For ways of computing that name no choices of their own.
    [[nodiscard]] const Choices& choices() const { return choices_; }
    // Grains that fit at once: all of the window, if possible.
    [[nodiscard]] int64_t most_at_once() const { return most_at_once_; }
    // Samples that fit at once where each is a grain of its own: at least two, so that they have neighbours.
    [[nodiscard]] int64_t samples_at_once() const { return samples_at_once(most_at_once_); }
    // Grains that fit with other choices, at most as many; nothing if not even one grain fits.
    [[nodiscard]] std::optional<int64_t> most_at_once_with(const Choices& choices) const;

    // What may stay in memory, and addresses for it, some of them to spare.
    [[nodiscard]] int64_t arena_bytes() const { return engine_bytes_ + (has_sums_on_host() ? 0 : second_sum_bytes_); }
    [[nodiscard]] int64_t address_bytes() const { return address_bytes_; }
    // And beside it in the host's memory, for state that the settings put there.
    [[nodiscard]] int64_t host_bytes() const { return state_bytes_ + (has_sums_on_host() ? second_sum_bytes_ : 0); }

private:
    [[nodiscard]] int64_t most_waiting() const;
    [[nodiscard]] int64_t samples_at_once(int64_t grains) const {
        return std::max<int64_t>(2, grains * window_.grain_samples);
    }
    // Of an engine with so many grains at once, each of so many samples.
    [[nodiscard]] int64_t engine_bytes(int64_t grain_samples, int64_t at_once, const Choices& choices) const;
    // With so many grains at once, or as many samples as grains of their own.
    [[nodiscard]] int64_t engine_bytes(int64_t at_once, const Choices& choices) const;
    [[nodiscard]] bool has_sums_on_host() const { return inputs_.settings.compute.host_state == HostState::sums; }
    void check_host();
    // Of the whole process, with the second sum.
    [[nodiscard]] int64_t process_bytes_with(int64_t engine_bytes, int64_t at_once) const;
    void choose_smaller_plan(const MemoryBound& budget);
    [[nodiscard]] std::string refusal(const MemoryBound& budget, const Plan& smallest) const;

    const RunInputs& inputs_;
    Window window_;
    int threads_;
    Planner planner_;
    ProcessBase base_;
    int64_t second_sum_bytes_;
    int64_t state_bytes_;  // on the host
    Choices choices_;
    int64_t most_at_once_ = 1;
    int64_t engine_bytes_ = 0;
    int64_t address_bytes_ = 0;
};

}  // namespace accrue
