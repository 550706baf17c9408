#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/accumulate/units.h"
#include "accrue/accumulate/window.h"

namespace accrue {

// What a window is: all that its update depends on besides weights, moments and samples. Made once, when the window opens,
// by whoever has the data; stored with an open window and sent to other workers, so that nobody works it out again.
struct WindowRecord {
    Window window = {};
    int64_t step = 0;            // the optimizer step, counted from 1
    Units units = {};            // of exact sums; empty with all others
    int64_t replay = 0;          // how often the window was begun again with coarser units
    double rate = 0;             // of this step, schedule included
    double beta2 = 0;            // of this step
    uint64_t rounding_seed = 0;  // of stochastic sums
    int64_t loss_scale = 1;      // of the gradients that go into the sums (loss_scale.h)
    // By the data's own account; known where the rate or beta2 follow from it, and then the sums must agree.
    std::optional<int64_t> counted_tokens = {};

    bool operator==(const WindowRecord&) const = default;
};

// A record as JSON text, for a checkpoint and for other workers, and back. Damage is an error that says what is wrong.
[[nodiscard]] std::string to_json(const WindowRecord& record);
[[nodiscard]] WindowRecord window_record_of(const std::string& json);

}  // namespace accrue
