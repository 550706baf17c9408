#pragma once

#include <algorithm>
#include <span>

#include "accrue/kernels/cuda/plan.h"
#include "accrue/kernels/cuda/scratch.h"

// The scratch memory of adding gradients and of their norm. Needs no toolkit.
namespace accrue::cuda {

// What CompleteSums takes: of all gradients that wait, the sum of add_tiles(elements).
[[nodiscard]] int64_t complete_sums_bytes(int64_t waiting_tiles);

// Rows of the table that a grain can name, by extents alone: how many it does name depends on the data. Where sums are exact
// it names only what its own rows read; otherwise it may name what any row reads, because grains hold rows back alike.
[[nodiscard]] inline int64_t most_entries(const op::AddLookupGrad& call, const op::LookupGrain& grain) {
    const int64_t rows = grain.d_table.kind == SumKind::exact ? grain.rows.rows : call.d_output.rows;
    return std::max(rows, grain.index.entries.columns);
}

// Whether all grains can be added at once, because their order does not matter.
[[nodiscard]] inline bool is_exact(const op::AddLookupGrad& call) {
    return std::all_of(call.grains.begin(), call.grains.end(),
                       [](const op::LookupGrain& grain) { return grain.d_table.kind == SumKind::exact; });
}

// One for each row that a grain can name; the grains' one behind another where they are added at once, else in one place.
[[nodiscard]] inline TileStatistics* lookup_statistics(Scratch& scratch, const op::AddLookupGrad& call) {
    int64_t all = 0;
    int64_t most = 0;
    for (const op::LookupGrain& grain : call.grains) {
        all += most_entries(call, grain);
        most = std::max(most, most_entries(call, grain));
    }
    return scratch.take<TileStatistics>(is_exact(call) ? all : most);
}

// The norm of a gradient is summed over blocks of this many elements.
inline constexpr int64_t kNormBlock = 65536;
[[nodiscard]] constexpr int64_t norm_blocks(int64_t elements) {
    return (elements + kNormBlock - 1) / kNormBlock;
}
struct NormScratch {
    double* blocks = nullptr;   // the squares of each block, tensor by tensor
    double* tensors = nullptr;  // and of each tensor
};
[[nodiscard]] inline NormScratch norm_scratch(Scratch& scratch, std::span<const MeanView> gradients) {
    int64_t blocks = 0;
    for (const MeanView& gradient : gradients) {
        blocks += norm_blocks(gradient.elements);
    }
    return {.blocks = scratch.take<double>(blocks), .tensors = scratch.take<double>(std::ssize(gradients))};
}

}  // namespace accrue::cuda
