#pragma once

#include <algorithm>

#include "accrue/kernels/cpu/product_plan.h"
#include "accrue/kernels/operation/products.h"

// In which order a CPU computes the products of a backward pass: what runs and what counts its memory follow it alike.
namespace accrue::cpu {

// Whether weights' gradients may wait for the gradient of the input.
[[nodiscard]] inline bool may_wait(const op::LinearBackward& call) {
    return call.of == op::ProductOf::block && !call.d_input.empty();
}

// Whether what was started has to be run before another product is: two that add to the same sum must not run together,
// and each keeps scratch memory. A started product has a sum().
template <class Started>
[[nodiscard]] bool must_run_before(const Started& started, const SumView& sum) {
    return started.size() == kMostStartedProducts ||
           std::ranges::any_of(started, [&](const auto& product) { return product->sum() == sum.data; });
}

// Calls each(grain, sums) for all of them, in order.
template <class Each>
void for_sums(const op::LinearBackward& call, const Each& each) {
    for (size_t grain = 0; grain < call.grains.size(); ++grain) {
        for (const op::LinearSums& sums : call.sums) {
            each(grain, sums);
        }
    }
}

// The part of d_output that a grain's sums are of.
[[nodiscard]] inline AnyConstView d_output_of(const op::LinearBackward& call, size_t grain,
                                              const op::LinearSums& sums) {
    const RowRange& range = call.grains[grain];
    return call.d_output.slice_rows(range.first, range.rows).slice_columns(sums.first_output, sums.outputs);
}

}  // namespace accrue::cpu
