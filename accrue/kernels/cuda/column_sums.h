#pragma once

#include <span>

#include "accrue/kernels/cuda/column_sums_plan.h"
#include "accrue/kernels/cuda/context.h"

namespace accrue::cuda {

// For each grain: sums[g][c] += sum over the grain's r of values[r, c]; no sums = frozen. A grain's rows are taken in blocks
// of rows_per_partial_sum, each summed in fp32 in row order; their total is taken in double in a fixed order, and rounded
// once to fp32. It depends on the grain's rows alone.
// Takes values any [rows, columns], any stride, and add_column_sums_bytes of the scratch memory, which is free again
// when the call returns.
void add_column_sums(Context& context, AnyConstView values, std::span<const RowRange> grains,
                     std::span<const SumView> sums, Scratch& scratch);

}  // namespace accrue::cuda
