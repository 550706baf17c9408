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

// Rows of a grain, or rows that belong to none.
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

// Segments as kernels take them. Mostly all are as large as the first and follow one another: then a block finds its rows
// without a look at memory, for which it would wait before its first load. Otherwise they are a table in constants.
struct RowTable {
    RowSegment first = {};
    int64_t alike = 0;  // 1: there is no table
    const RowSegment* segments = nullptr;
    int64_t count = 0;
};
[[nodiscard]] RowTable table_of(Tape& tape, const RowSegments& rows);

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

// Part `part` of a segment.
__device__ inline Piece piece_of(const RowSegment& segment, int64_t part) {
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

// The segment that has a block, of those in memory. All lanes of each warp call it together.
__device__ inline RowSegment segment_of(const RowTable& table, int64_t block) {
    constexpr unsigned kAll = 0xffffffffU;
    int64_t found = 0;
    for (int64_t first = 0; first < table.count && table.count > 1; first += 32) {
        const int64_t mine = first + threadIdx.x % 32;
        const unsigned begun = __ballot_sync(kAll, mine < table.count && table.segments[mine].first_block <= block);
        if (begun != 0) {
            found = first + 31 - __clz(static_cast<int>(begun));
        }
        if (begun != kAll) {
            break;
        }
    }
    return table.segments[found];
}

// All lanes of each warp call it together.
__device__ inline Piece piece_of(const RowTable& table, int64_t block) {
    if (table.alike == 0) {
        const RowSegment segment = segment_of(table, block);
        return piece_of(segment, block - segment.first_block);
    }
    RowSegment segment = table.first;
    const auto rows = static_cast<uint32_t>(segment.rows);
    const auto of_block = static_cast<uint32_t>(segment.rows_per_block);
    const uint32_t parts = (rows + of_block - 1) / of_block;
    const uint32_t number = static_cast<uint32_t>(block) / parts;
    segment.first_row += static_cast<int64_t>(number) * rows;
    segment.first_partial += static_cast<int64_t>(number) * parts;
    return piece_of(segment, static_cast<uint32_t>(block) % parts);
}

}  // namespace accrue::cuda
