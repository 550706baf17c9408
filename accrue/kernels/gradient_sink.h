#pragma once

#include <cstdint>
#include <span>

#include "accrue/kernels/sum_view.h"

namespace accrue {

// Where a model sends the gradients of grains, a micro-batch at a time: sums with a count, never means.
class GradientSink {
public:
    virtual ~GradientSink() = default;

    // A grain of a micro-batch: its number in the window, and how many of its target tokens are counted.
    struct Grain {
        int64_t number = 0;
        int64_t counted_tokens = 0;
    };
    // A micro-batch of these grains begins. Each grain of a window comes once.
    virtual void begin(std::span<const Grain> grains) = 0;
    // What the gradient of each loss is multiplied by where it begins, a power of two: 1, unless number formats are too narrow
    // for what is small. The sums take it out again (SumView::unscale); losses stay as they are.
    [[nodiscard]] virtual int64_t loss_scale() const = 0;
    // The place for a grain's gradient of one tensor (its number among the trained ones). The grain is of the micro-batch
    // that has begun.
    [[nodiscard]] virtual SumView sum_of(int64_t grain, int64_t tensor) = 0;
    // Where the device puts each grain's loss, summed over counted tokens: [1, grains of the micro-batch].
    [[nodiscard]] virtual View<double> loss_sums() = 0;
    // Everything of the micro-batch was asked of the device.
    virtual void end() = 0;
};

}  // namespace accrue
