#pragma once

#include "accrue/kernels/cuda/linear_plan.h"
#include "accrue/kernels/cuda/tape.h"

// Small passes beside products.
namespace accrue::cuda {

// stream[r, c] = residual[r, c] + dropout(stream[r, c])
void put_drop_and_add(Tape& tape, const Dropout& dropout, View<const float> residual, View<float> stream);

// What is left of a sum along the depth that was cut into slices: left[r, k] * right[c, k] for the last few k.
struct SumRest {
    const void* left = nullptr;
    int64_t left_stride = 0;
    const void* right = nullptr;
    int64_t right_stride = 0;
    bool right_along_depth = true;
    int64_t depth = 0;
};
// output[r, c] = the slices' elements in their order, then the rest's terms in theirs, summed in fp32. Slices have no gaps.
void put_sum_of_slices(Tape& tape, const float* slices, int64_t apart, int64_t count, DType dtype, const SumRest& rest,
                       AnyView output);

// Rows of `gradient` that have a slot move to its values and become 0; with no gradient, the values become 0.
void put_hold_rows(Tape& tape, const HeldRows& held, float* gradient);

}  // namespace accrue::cuda
