#pragma once

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/product.h"

namespace accrue::cuda {

// A matrix of samples in rows, as it is in products of them.
[[nodiscard]] inline Factor rows_of(const AnyConstView& view) {
    return {.data = view.data, .stride = view.stride, .along_depth = true};
}
// The same where the product sums over the rows.
[[nodiscard]] inline Factor columns_of(const AnyConstView& view) {
    return {.data = view.data, .stride = view.stride, .along_depth = false};
}

// A weight whose inputs are summed over, and one whose outputs are.
[[nodiscard]] inline Factor outputs_of(const WeightView& weight) {
    return {.data = weight.matrix.data,
            .stride = weight.matrix.stride,
            .along_depth = weight.layout == WeightLayout::out_in};
}
[[nodiscard]] inline Factor inputs_of(const WeightView& weight) {
    return {.data = weight.matrix.data,
            .stride = weight.matrix.stride,
            .along_depth = weight.layout == WeightLayout::in_out};
}

// The weight in the dtype of the narrow matrix beside it, rounded into `room` where there is one (narrow_weight_room).
[[nodiscard]] inline WeightView narrowed(Context& context, const WeightView& weight, DType beside, void* room) {
    if (room == nullptr) {
        return weight;
    }
    const AnyConstView& matrix = weight.matrix;
    const AnyView copy(room, beside, matrix.rows, matrix.columns, matrix.stride);
    lower(context, op::Cast{.input = matrix.as<float>(), .dropout = {}, .output = copy}, Scratch());
    return {.matrix = copy, .layout = weight.layout};
}

}  // namespace accrue::cuda
