#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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
// its second-level cache. The depth is sliced where even a narrow strip would be too large for that; then rather into
// many slices, of which the first-level cache can hold a tile's rows.
inline constexpr int64_t kWholeWords = 1024;
inline constexpr int64_t kSliceWords = 512;
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

// Weight gradients that wait at most to be computed with an input's: those of queries, keys and values. Each keeps its
// scratch memory meanwhile.
inline constexpr size_t kMostStartedProducts = 3;

// One thread's work at a time: a strip of columns for some rows of a block.
struct ProductItem {
    int64_t first_row = 0;
    int64_t end_row = 0;
    int64_t first_column = 0;
    int64_t end_column = 0;
};

struct ProductPlan {
    int64_t slice_words = 0;
    std::vector<ProductItem> items;
};

// Items in the order in which threads take them: first wide strips, which use what they packed most often, then a tail of
// smaller ones, so that threads finish together even where one of them is held up on the way.
class ProductItems {
public:
    // Strips are at most `widest` cells wide, in the tail `narrow`.
    ProductItems(const ProductShape& block, int64_t widest, int64_t narrow, int threads)
        : block_(block), threads_(threads), part_rows_(even_share(block.rows, kPartRows, kCellRows)) {
        constexpr int64_t kShareOfTail = 8;
        const int64_t cells = pieces_of(block.columns, kCellColumns);
        const int64_t tail = std::min(cells, std::max(threads * narrow, cells / kShareOfTail));
        for (int64_t row = 0; row < block.rows; row += part_rows_) {
            if (row + part_rows_ < block.rows) {
                add_strips(row, {0, cells}, widest);
            } else {
                add_strips(row, {0, cells - tail}, widest);
                add_tail(row, {cells - tail, cells}, narrow);
            }
        }
    }

    [[nodiscard]] std::vector<ProductItem> take() { return std::move(items_); }

private:
    struct Cells {
        int64_t first;
        int64_t end;
        [[nodiscard]] int64_t count() const { return end - first; }
    };

    // As many for each thread, as far as that goes, the wider ones first.
    void add_strips(int64_t row, Cells cells, int64_t widest) {
        const int64_t strips = std::min(cells.count(), round_up(pieces_of(cells.count(), widest), threads_));
        int64_t first = cells.first;
        for (int64_t left = strips; left > 0; --left) {
            const int64_t end = first + pieces_of(cells.end - first, left);
            add(row, {first, end}, part_rows_);
            first = end;
        }
    }

    // The last strip of each thread is also cut across: more often if there are not even that many.
    void add_tail(int64_t row, Cells cells, int64_t narrow) {
        constexpr int64_t kLeastRows = 256;  // below that, packing a strip again for each piece costs too much
        const int64_t strips = pieces_of(cells.count(), narrow);
        int64_t rows = part_rows_;
        while (rows > kLeastRows && (rows == part_rows_ || strips * pieces_of(part_rows_, rows) < 2 * threads_)) {
            rows = round_up(rows / 2, kCellRows);
        }
        for (int64_t strip = 0; strip < strips; ++strip) {
            const int64_t first = cells.first + strip * narrow;
            add(row, {first, std::min(cells.end, first + narrow)}, strip + threads_ < strips ? part_rows_ : rows);
        }
    }

    void add(int64_t first_row, Cells cells, int64_t rows) {
        const int64_t end_row = std::min(block_.rows, first_row + part_rows_);
        for (int64_t row = first_row; row < end_row; row += rows) {
            items_.push_back({.first_row = row,
                              .end_row = std::min(end_row, row + rows),
                              .first_column = cells.first * kCellColumns,
                              .end_column = std::min(block_.columns, cells.end * kCellColumns)});
        }
    }

    ProductShape block_;
    int threads_;
    int64_t part_rows_;
    std::vector<ProductItem> items_;
};

// Work for `threads` threads on a block of rows. A narrow strip costs less reuse of the left side: where the depth is
// sliced and the left side long, too much.
[[nodiscard]] inline ProductPlan plan_product(const ProductShape& block, int64_t words, int threads) {
    const bool sliced = words > kWholeWords;
    const int64_t slice_words = even_share(words, sliced ? kSliceWords : kWholeWords, 16);
    const int64_t widest =
        std::clamp<int64_t>(kStripBytes / (kCellColumns * slice_words * 4), 1, sliced ? kSlicedCells : kStripCells);
    return {.slice_words = slice_words, .items = ProductItems(block, widest, sliced ? widest : 1, threads).take()};
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
    space.strip_bytes = space.sums + (shape.depth > kWholeWords ? kPartRows * kSlicedCells * kCellColumns * 4 : 0);
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
