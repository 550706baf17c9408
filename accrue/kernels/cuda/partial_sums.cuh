#pragma once

#include <vector>

#include "accrue/kernels/cuda/column_sums.h"
#include "accrue/kernels/cuda/device.cuh"

// How the rows of grains are shared out to blocks of threads, of which each leaves one partial sum of each column, and how
// these become gradients.
namespace accrue::cuda {

// What is computed of some rows.
inline constexpr int64_t kRowWork = 1;  // what each row has by itself
inline constexpr int64_t kSumWork = 2;  // sums of columns

// Rows of a grain, or rows that belong to none, as a table in constants: which they are depends on the micro-batch.
struct RowSegment {
    int64_t first_row = 0;
    int64_t rows = 0;
    int64_t rows_per_block = 1;
    int64_t first_block = 0;
    int64_t first_partial = 0;
    int64_t work = 0;
};

// All rows of a call.
struct RowSegments {
    std::vector<RowSegment> segments;  // none of them empty; their blocks follow one another
    int64_t partials = 0;

    void add(const RowRange& rows, int64_t work);
    // How many blocks to start. Where segments differ in size the number is an upper bound that depends on their number and
    // on all rows, so that a graph stays the same while grains vary; blocks beyond the last segment find no rows.
    [[nodiscard]] int64_t blocks() const;
};

// Sums only.
[[nodiscard]] RowSegments segments_of_sums(std::span<const RowRange> grains);
// Each of `rows` rows has its work; those of grains are summed as well, in the same pass where grains do not overlap.
[[nodiscard]] RowSegments segments_of_rows(int64_t rows, std::span<const RowRange> grains);
// Each of `rows` rows has its work, and nothing is summed.
[[nodiscard]] RowSegments segments_without_sums(int64_t rows);

// The rows of one block.
struct Piece {
    int64_t first_row = 0;
    int64_t rows = 0;  // 0: nothing to do
    int64_t partial = 0;
    int64_t work = 0;
};

// All lanes of each warp call it together.
__device__ inline Piece piece_of(const RowSegment* segments, int64_t count, int64_t block) {
    constexpr unsigned kAll = 0xffffffffU;
    int64_t found = 0;
    for (int64_t first = 0; first < count && count > 1; first += 32) {
        const int64_t mine = first + threadIdx.x % 32;
        const unsigned begun = __ballot_sync(kAll, mine < count && segments[mine].first_block <= block);
        if (begun != 0) {
            found = first + 31 - __clz(static_cast<int>(begun));
        }
        if (begun != kAll) {
            break;
        }
    }
    const RowSegment segment = segments[found];
    const int64_t part = block - segment.first_block;
    const int64_t begin = part * segment.rows_per_block;
    if (begin >= segment.rows) {
        return {};
    }
    const int64_t left = segment.rows - begin;
    return {.first_row = segment.first_row + begin,
            .rows = left < segment.rows_per_block ? left : segment.rows_per_block,
            .partial = segment.first_partial + part,
            .work = segment.work};
}

}  // namespace accrue::cuda
