#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/assess/window_lab.h"

namespace accrue {

// Does what a model makes of a sample depend on the samples beside it, as with statistics over the batch?
struct NeighbourCheck {
    int64_t samples = 0;  // how many were looked at
    int64_t changed = 0;  // how many of them came out different
    struct Change {
        int64_t sample = 0;  // of the training data
        double loss_alone = 0;
        double loss_beside_others = 0;
        std::optional<int64_t> tensor;  // the loss is the same, but not this gradient
    };
    std::optional<Change> first;
    double seconds = 0;
};

// Computes each sample of the window alone and then beside others, and compares its loss and its gradients' norms.
[[nodiscard]] NeighbourCheck check_neighbours(WindowLab& lab);

}  // namespace accrue
