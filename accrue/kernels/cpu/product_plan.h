#pragma once

#include <algorithm>
#include <cstdint>

#include "accrue/kernels/cpu/packing.h"
#include "accrue/kernels/sum_view.h"

// How a product is cut up. No bits depend on it: every element is one chain of additions (product-inl.h), and what is
// recorded of a result is recorded per cell of a fixed grid.
namespace accrue::cpu {

// output[rows, columns] = sum over depth.
struct ProductShape {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t depth = 0;
};

// A thread packs a strip of the right side for itself and multiplies it at once, so that the packed words never leave
// its second-level cache. The depth is sliced where even a narrow strip would be too large for that.
inline constexpr int64_t kSliceWords = 1024;
inline constexpr int64_t kStripBytes = int64_t{384} << 10;

// The left side, where it must be packed, is packed once by all threads, a block of rows at a time.
inline constexpr int64_t kLeftBytes = int64_t{4} << 20;
// Words between the end of a packed row and the next one: rows must not fall on the same places of the cache.
inline constexpr int64_t kLeftPadding = 16;

// The cells in which a result is recorded: whole tiles of every instruction set. Strips and parts are whole cells.
inline constexpr int64_t kCellRows = 128;
inline constexpr int64_t kCellColumns = 48;
inline constexpr int64_t kStripCells = 8;   // at most, in a row of a strip
inline constexpr int64_t kSlicedCells = 2;  // the same where the depth is sliced and sums wait

// The rows that one thread multiplies with a strip at most: its sums wait between slices.
inline constexpr int64_t kPartRows = 1024;

[[nodiscard]] constexpr int64_t pieces_of(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

[[nodiscard]] constexpr int64_t round_up(int64_t count, int64_t unit) {
    return pieces_of(count, unit) * unit;
}

// The even share of `count` in as few pieces as the limit allows, in whole units.
[[nodiscard]] constexpr int64_t even_share(int64_t count, int64_t limit, int64_t unit) {
    const int64_t some = std::max<int64_t>(count, 1);
    return round_up(pieces_of(some, pieces_of(some, limit)), unit);
}

// The rows of the left side that are packed at a time.
[[nodiscard]] constexpr int64_t left_block_rows(int64_t rows, int64_t words) {
    const int64_t fitting = kLeftBytes / ((words + kLeftPadding) * 4) / kCellRows * kCellRows;
    return std::min(rows, even_share(rows, std::max(fitting, kCellRows), kCellRows));
}

// Work for `threads` threads on a block of rows: strips of columns, each for one or several parts of the rows.
struct ProductPlan {
    int64_t slice_words = 0;
    int64_t strips = 0;
    int64_t part_rows = 0;
    int64_t parts = 0;

    [[nodiscard]] int64_t items() const { return strips * parts; }
};

// Where strip `number` begins: cells are shared out evenly.
[[nodiscard]] constexpr int64_t strip_start(const ProductPlan& plan, int64_t columns, int64_t number) {
    return std::min(columns, pieces_of(columns, kCellColumns) * number / plan.strips * kCellColumns);
}

[[nodiscard]] constexpr ProductPlan plan_product(const ProductShape& block, int64_t words, int threads) {
    constexpr int64_t kItemsOfAThread = 3;   // so that threads finish together
    constexpr int64_t kLeastPartRows = 256;  // below that, packing a strip again for each part costs too much
    ProductPlan plan;
    plan.slice_words = even_share(words, kSliceWords, 16);
    const int64_t cells = pieces_of(block.columns, kCellColumns);
    const int64_t cells_of_a_strip = std::clamp<int64_t>(kStripBytes / (kCellColumns * plan.slice_words * 4), 1,
                                                         plan.slice_words < words ? kSlicedCells : kStripCells);
    const int64_t wanted = std::max(pieces_of(cells, cells_of_a_strip), std::min(cells, kItemsOfAThread * threads));
    plan.strips = std::min(cells, round_up(wanted, threads));
    plan.part_rows = even_share(block.rows, kPartRows, kCellRows);
    while (plan.part_rows > kLeastPartRows && plan.strips * pieces_of(block.rows, plan.part_rows) < 2 * threads) {
        plan.part_rows = round_up(plan.part_rows / 2, kCellRows);
    }
    plan.parts = pieces_of(block.rows, plan.part_rows);
    return plan;
}

// Where the parts of a product's scratch memory lie, in bytes from its start. The packed left side lies at 0.
struct ProductWorkspace {
    int64_t strips = 0;       // one after another, one per thread
    int64_t strip_bytes = 0;  // packed words, then sums between slices
    int64_t sums = 0;         // in a thread's strip
    int64_t records = 0;      // one per cell of the whole output
    int64_t bytes = 0;
};

// Enough for every packing and every instruction set.
[[nodiscard]] constexpr ProductWorkspace lay_out(const ProductShape& shape, int threads) {
    const int64_t floats = left_block_rows(shape.rows, shape.depth) * (shape.depth + kLeftPadding) * 4;
    const int64_t all_pairs = shape.rows * ((shape.depth + 1) / 2 + kLeftPadding) * 4;
    ProductWorkspace space;
    space.strips = round_up(std::max(floats, std::min(kLeftBytes, all_pairs)), 64);
    space.sums = kStripBytes;
    space.strip_bytes = space.sums + (shape.depth > kSliceWords ? kPartRows * kSlicedCells * kCellColumns * 4 : 0);
    space.records = space.strips + threads * space.strip_bytes;
    space.bytes = space.records + pieces_of(shape.rows, kCellRows) * pieces_of(shape.columns, kCellColumns) *
                                      static_cast<int64_t>(sizeof(GrainRecord));
    return space;
}

// The scratch bytes that a product takes from the arena, once, when it starts.
[[nodiscard]] constexpr int64_t product_workspace_bytes(int64_t rows, int64_t columns, int64_t depth, int threads) {
    return lay_out({.rows = rows, .columns = columns, .depth = depth}, threads).bytes;
}

// Whether a weight's gradient is multiplied with rows and columns exchanged. The shorter side is better on the left: there
// values are turned around, which costs more than packing the right side, and a shorter side fits into one block. But
// then each row of a tile is one cache line of the sum, and where rows of the sum are whole pages apart these compete for
// one place in the cache: with bf16, which packs half as much, that costs more than it saves.
[[nodiscard]] constexpr bool is_turned(int64_t rows, int64_t columns, DType dtype) {
    constexpr int64_t kPageElements = 512;
    return rows > columns && (dtype == DType::fp32 || columns % kPageElements != 0);
}

}  // namespace accrue::cpu
