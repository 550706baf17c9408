#pragma once

#include <algorithm>
#include <cstdint>

#include "accrue/kernels/sum_view.h"

// How a product is cut up, as a function of its shape alone: neither bits nor bytes may depend on threads or processor.
namespace accrue::cpu {

// output[rows, columns] = sum over depth.
struct ProductShape {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t depth = 0;
};

// Words of one lane that are packed at a time: tiles' panels then stay in the second-level cache.
inline constexpr int64_t kSliceWords = 1024;

// Rows and columns that a thread takes at most at a time: whole tiles of every instruction set.
inline constexpr int64_t kItemRows = 128;
inline constexpr int64_t kItemColumns = 192;

// Blocks of the output whose packed operands are in memory at once, and the items that threads take from each.
struct ProductPlan {
    int64_t block_rows = 0;
    int64_t block_columns = 0;
    int64_t item_rows = kItemRows;
    int64_t item_columns = kItemColumns;
};

[[nodiscard]] constexpr int64_t pieces_of(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

[[nodiscard]] constexpr int64_t round_up(int64_t count, int64_t unit) {
    return pieces_of(count, unit) * unit;
}

// The even share of `count` in as few blocks as the limit allows, in whole units.
[[nodiscard]] constexpr int64_t even_share(int64_t count, int64_t limit, int64_t unit) {
    return round_up(pieces_of(std::max<int64_t>(count, 1), pieces_of(std::max<int64_t>(count, 1), limit)), unit);
}

[[nodiscard]] constexpr int64_t items_of(const ProductPlan& plan, int64_t rows, int64_t columns) {
    return pieces_of(rows, plan.item_rows) * pieces_of(columns, plan.item_columns);
}

[[nodiscard]] constexpr ProductPlan plan_product(const ProductShape& shape) {
    constexpr int64_t kPackedBytes = int64_t{16} << 20;  // of either side
    constexpr int64_t kSlicedLanes = 1536;               // where a block's sums wait for the next slice
    constexpr int64_t kWantedItems = 64;                 // enough to keep 16 threads evenly busy
    const bool sliced = shape.depth > kSliceWords;
    const int64_t words = std::max<int64_t>(1, std::min(shape.depth, kSliceWords));
    const int64_t limit = sliced ? kSlicedLanes : kPackedBytes / (words * 4);
    ProductPlan plan;
    plan.block_rows = even_share(shape.rows, limit / kItemRows * kItemRows, kItemRows);
    plan.block_columns = even_share(shape.columns, limit / kItemColumns * kItemColumns, kItemColumns);
    while (plan.item_rows > 32 && items_of(plan, shape.rows, shape.columns) < kWantedItems) {
        plan.item_rows /= 2;
    }
    while (plan.item_columns > 48 && items_of(plan, shape.rows, shape.columns) < kWantedItems) {
        plan.item_columns /= 2;
    }
    return plan;
}

// Where the parts of a product's scratch memory lie, in bytes from its start.
struct ProductWorkspace {
    int64_t right = 0;    // the left side's packed words lie at 0
    int64_t sums = 0;     // of a block, between slices
    int64_t records = 0;  // one per item of the whole output
    int64_t bytes = 0;
};

[[nodiscard]] constexpr ProductWorkspace lay_out(const ProductShape& shape) {
    const ProductPlan plan = plan_product(shape);
    const int64_t words = std::min(shape.depth, kSliceWords);
    const int64_t rows = std::min(plan.block_rows, round_up(shape.rows, 16));
    const int64_t columns = std::min(plan.block_columns, round_up(shape.columns, 48));
    const int64_t blocks = pieces_of(shape.rows, plan.block_rows) * pieces_of(shape.columns, plan.block_columns);
    ProductWorkspace space;
    space.right = rows * words * 4;
    space.sums = space.right + columns * words * 4;
    space.records = space.sums + (shape.depth > kSliceWords ? rows * columns * 4 : 0);
    space.bytes = space.records + blocks * items_of(plan, plan.block_rows, plan.block_columns) *
                                      static_cast<int64_t>(sizeof(GrainRecord));
    return space;
}

// The scratch bytes that a product takes from the arena, once, when it starts.
[[nodiscard]] constexpr int64_t product_workspace_bytes(int64_t rows, int64_t columns, int64_t depth) {
    return lay_out({.rows = rows, .columns = columns, .depth = depth}).bytes;
}

}  // namespace accrue::cpu
