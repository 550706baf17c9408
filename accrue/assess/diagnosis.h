#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accrue/assess/sum_values.h"
#include "accrue/assess/window_lab.h"

namespace accrue {

// What may have gone wrong in one way of computing a window.
struct Diagnosis {
    std::string what;    // the same words for the same fault, whatever the way
    std::string detail;  // as this way shows it
};

// What the sums say by themselves: a grain that is missing, or that counts other tokens than the data has.
[[nodiscard]] std::optional<Diagnosis> diagnose_alone(const WindowLab& lab, const Computed& got);

// Why a window came out with other bits than `whole`. `difference` is that of the sums; nothing if they are the same and
// only the update is not.
[[nodiscard]] Diagnosis diagnose(const WindowLab& lab, const Computed& got, const Computed& whole,
                                 const std::optional<GradientDifference>& difference);

}  // namespace accrue
