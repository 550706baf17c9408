#pragma once

#include <cstdint>

#include "accrue/kernels/sum_view.h"

namespace accrue {

// Where a model sends the gradients of grains: sums with a count, never means.
class GradientSink {
public:
    virtual ~GradientSink() = default;
    // The place for one grain's gradient of one tensor (its number in the model's list of parameters).
    [[nodiscard]] virtual SumView sum_of(int64_t grain, int64_t tensor) = 0;
    // A grain is finished: its loss summed over counted tokens, and how many were counted. Once for each grain.
    virtual void finish_grain(int64_t grain, double loss_sum, int64_t counted_tokens) = 0;
};

}  // namespace accrue
