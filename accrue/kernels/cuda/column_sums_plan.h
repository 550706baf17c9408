#pragma once

#include <algorithm>
#include <span>

#include "accrue/kernels/cuda/plan.h"
#include "accrue/kernels/cuda/scratch.h"

// The scratch memory of column sums over the rows of grains: gradients of biases and gains. Needs no toolkit.
namespace accrue::cuda {

// How many rows go into one partial sum; context.h's rows_per_partial_sum, which must agree.
[[nodiscard]] constexpr int64_t rows_of_partial_sum(int64_t grain_rows) {
    return grain_rows >= 4096 ? 32 : grain_rows >= 512 ? 8 : 4;
}
[[nodiscard]] constexpr int64_t partial_sums_of(int64_t grain_rows) {
    return (grain_rows + rows_of_partial_sum(grain_rows) - 1) / rows_of_partial_sum(grain_rows);
}

// The grains' totals, `columns` values for each tensor and grain, and the partial sums that they are made from:
// partial sum p of tensor t begins at (p * tensors + t) * columns.
struct ColumnSums {
    float* totals = nullptr;
    float* partials = nullptr;
    int64_t partials_begin = 0;  // of the scratch memory: free again when the totals are made
    bool may_wait = false;       // they lie in PendingTotals, not in the scratch memory
};
[[nodiscard]] inline ColumnSums cut_column_sums(Scratch& scratch, int64_t columns, int64_t tensors,
                                                std::span<const RowRange> grains) {
    ColumnSums cut{.totals = scratch.take<float>(std::ssize(grains) * tensors * columns)};
    cut.partials_begin = scratch.bytes();
    int64_t partials = 0;
    for (const RowRange& grain : grains) {
        partials += partial_sums_of(grain.rows);
    }
    cut.partials = scratch.take<float>(partials * tensors * columns);
    return cut;
}

// Of so many tensors with a sum each per grain; what their adds take lies where the partial sums were.
[[nodiscard]] inline int64_t column_sums_bytes(int64_t columns, int64_t tensors, std::span<const RowRange> grains) {
    Scratch scratch;
    const ColumnSums cut = cut_column_sums(scratch, columns, tensors, grains);
    const int64_t summing = scratch.bytes();
    scratch.rewind(cut.partials_begin);
    for (int64_t gradient = 0; gradient < std::ssize(grains) * tensors; ++gradient) {
        scratch.take<TileStatistics>(add_tiles(columns));
    }
    return std::max(summing, scratch.bytes());
}

// Whether the grains' rows follow one another, so that one pass over all rows can sum them.
[[nodiscard]] inline bool are_in_order(std::span<const RowRange> grains) {
    int64_t end = 0;
    for (const RowRange& grain : grains) {
        if (grain.first < end) {
            return false;
        }
        end = grain.first + grain.rows;
    }
    return true;
}

[[nodiscard]] inline int64_t add_column_sums_bytes(int64_t columns, std::span<const RowRange> grains) {
    return column_sums_bytes(columns, 1, grains);
}

}  // namespace accrue::cuda
