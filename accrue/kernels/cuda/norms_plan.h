#pragma once

#include "accrue/kernels/cuda/column_sums_plan.h"

// Which columns a norm's backward pass sums, and in which pass, for a plan and for a run. Needs no toolkit.
namespace accrue::cuda {

struct NormSums {
    // In the pass over all rows.
    bool gain = false;
    bool bias = false;
    bool copy = false;
    // In a pass of its own over the copy.
    bool copy_alone = false;

    [[nodiscard]] int64_t tensors() const { return (gain ? 1 : 0) + (bias ? 1 : 0) + (copy ? 1 : 0); }
    [[nodiscard]] int64_t bytes(int64_t columns, int64_t width, std::span<const RowRange> grains) const {
        const int64_t together = tensors() == 0 ? 0 : column_sums_bytes(width, tensors(), grains);
        return copy_alone ? std::max(together, add_column_sums_bytes(columns, grains)) : together;
    }
};

// Rows that a block of threads has one after another, each as a whole and in registers with room for one more sum, can have
// their rounded copy summed as add_column_sums would sum it.
[[nodiscard]] constexpr bool has_whole_rows(int64_t columns, int64_t width) {
    return columns == width && width > 256 && width <= 4096;
}

// Of RmsNormBackward or LayerNormBackward.
template <class Call>
[[nodiscard]] NormSums sums_of(const Call& call) {
    const bool together = has_whole_rows(call.input.columns, call.gain.columns) && are_in_order(call.grains);
    NormSums sums{.gain = !call.d_gain.empty(),
                  .copy = !call.copy_sums.empty() && together,
                  .copy_alone = !call.copy_sums.empty() && !together};
    if constexpr (requires { call.d_bias; }) {
        sums.bias = !call.d_bias.empty();
    }
    return sums;
}

}  // namespace accrue::cuda
