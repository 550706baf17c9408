#pragma once

#include <bit>
#include <cstdint>

namespace accrue {

// What a window's losses are multiplied by on their way back, so that the small numbers of a gradient are not lost in fp16,
// which ends at 65,504 and at 6e-8. A power of two, so that taking it out again changes no digit; found by trying: it falls
// when a window's gradients did not fit, and rises after a run of windows in which they did. A value: what comes after a
// window depends on nothing but this and what happened in the window, so that all workers have the same.
struct LossScale {
    // Nothing is scaled.
    static constexpr int64_t kSmallest = 1;
    // The gradient of a logit is the scale times (probability - 1): from 65,536 on, each badly predicted word overflows.
    static constexpr int64_t kLargest = 32768;

    int64_t value = kSmallest;
    int64_t good_windows = 0;  // in a row, with this value

    [[nodiscard]] static constexpr bool is_possible(int64_t value) {
        return value >= kSmallest && value <= kLargest && std::has_single_bit(static_cast<uint64_t>(value));
    }
    // False: a smaller one cannot help.
    [[nodiscard]] bool can_fall() const { return value > kSmallest; }

    // After a window whose gradients did not fit.
    [[nodiscard]] LossScale halved() const;
    // After a window that changed the weights. The scale doubles where `run` of them were good in a row.
    [[nodiscard]] LossScale after_good_window(int64_t run) const;
    // After a window that was skipped for another reason than the scale.
    [[nodiscard]] LossScale after_bad_window() const { return {.value = value, .good_windows = 0}; }

    bool operator==(const LossScale&) const = default;
};

}  // namespace accrue
