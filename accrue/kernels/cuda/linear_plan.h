#pragma once

#include <algorithm>
#include <span>

#include "accrue/kernels/cuda/plan.h"
#include "accrue/kernels/cuda/scratch.h"

// The scratch memory of products, cut by the same code for a plan and for a run. Needs no toolkit.
namespace accrue::cuda {

// Room for an fp32 weight's copy in the dtype of the narrow matrix beside it, with gaps as the weight has them; nothing where
// the weight is taken as it is.
[[nodiscard]] inline void* narrow_weight_room(Scratch& scratch, const WeightView& weight, DType beside) {
    const bool is_rounded = weight.matrix.dtype == DType::fp32 && beside != DType::fp32;
    return is_rounded ? scratch.take<uint16_t>(weight.matrix.rows * weight.matrix.stride) : nullptr;
}
// For a bias that the library cannot take where and as it is.
[[nodiscard]] inline void* bias_room(Scratch& scratch, View<const float> bias) {
    return bias.empty() ? nullptr : scratch.take<float>(bias.columns);
}

struct LinearRoom {
    void* weight = nullptr;
    void* bias = nullptr;
};
[[nodiscard]] inline LinearRoom linear_room(Scratch& scratch, const WeightView& weight, View<const float> bias,
                                            DType beside) {
    void* const narrow_weight = narrow_weight_room(scratch, weight, beside);
    return {.weight = narrow_weight, .bias = bias_room(scratch, bias)};
}

// How the sum over a weight's outputs is cut in the gradient of its input: into slices that are summed side by side, because
// the few tiles of a grain leave most of a GPU idle, and are then added in their order, with the few outputs that are left
// one after the other behind them. By the number of outputs alone.
struct InputSlices {
    int64_t count = 1;
    int64_t depth = 0;  // of each
    int64_t rest = 0;
};
inline constexpr int64_t kDeep = 8192;
[[nodiscard]] constexpr InputSlices input_slices(int64_t outputs) {
    if (outputs < kDeep) {
        return {.count = 1, .depth = outputs, .rest = 0};
    }
    constexpr int64_t kSlice = 16384;
    constexpr int64_t kUnit = 16;  // so that slices begin where the library wants it
    const int64_t count = std::max<int64_t>(2, (outputs + kSlice / 2) / kSlice);
    const int64_t depth = outputs / (count * kUnit) * kUnit;
    return {.count = count, .depth = depth, .rest = outputs - count * depth};
}

// Gradients that wait for being added, and slices, take no more than this, or else as little as possible.
inline constexpr int64_t kMostProductBytes = int64_t{128} << 20;

[[nodiscard]] constexpr int64_t in_lines(int64_t floats) {
    constexpr int64_t kLine = 64;
    return (floats + kLine - 1) / kLine * kLine;
}

struct SliceRoom {
    float* values = nullptr;
    int64_t apart = 0;  // elements from one slice to the next
    int64_t rows = 0;   // at a time
};
[[nodiscard]] inline SliceRoom slice_room(Scratch& scratch, const op::LinearBackward& call, const InputSlices& slices) {
    constexpr int64_t kRows = 256;
    const int64_t row_bytes = slices.count * call.d_input.columns * static_cast<int64_t>(sizeof(float));
    const int64_t most = std::max(kRows, kMostProductBytes / row_bytes / kRows * kRows);
    const int64_t rows = std::min(most, call.d_input.rows);
    const int64_t apart = in_lines(rows * call.d_input.columns);
    return {.values = scratch.take<float>(slices.count * apart), .apart = apart, .rows = rows};
}

// Whether a grain has a gradient that somebody wants; that of no rows is 0, which needs no adding.
[[nodiscard]] inline bool is_computed(const RowRange& rows, const SumView& sum) {
    return rows.rows > 0 && sum.is_wanted();
}
// Whether it is left where it waits. Odd places are the same as none: products of one kind have outputs that lie alike.
[[nodiscard]] inline bool may_wait(const SumView& sum) {
    return sum.waiting != nullptr && reinterpret_cast<uintptr_t>(sum.waiting) % 16 == 0;
}

// Room for the gradients of some grains until they are added.
struct GradientRoom {
    float* values = nullptr;
    int64_t apart = 0;   // elements from one gradient to the next
    int64_t grains = 0;  // at a time
};
[[nodiscard]] inline GradientRoom gradient_room(Scratch& scratch, const op::LinearBackward& call,
                                                const op::LinearSums& sums) {
    int64_t grains = 0;
    for (size_t grain = 0; grain < sums.weight.size(); ++grain) {
        const SumView& sum = sums.weight[grain];
        grains += is_computed(call.grains[grain], sum) && !may_wait(sum) ? 1 : 0;
    }
    const int64_t apart = in_lines(sums.outputs * call.input.columns);
    const int64_t fitting = kMostProductBytes / std::max<int64_t>(1, apart * static_cast<int64_t>(sizeof(float)));
    grains = std::min(grains, std::max<int64_t>(1, fitting));
    return {.values = scratch.take<float>(grains * apart), .apart = apart, .grains = grains};
}

}  // namespace accrue::cuda
