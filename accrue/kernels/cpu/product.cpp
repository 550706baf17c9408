#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/product.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "accrue/kernels/cpu/dropout-inl.h"
#include "accrue/kernels/cpu/exact_add-inl.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/product-inl.h"
#include "accrue/kernels/cpu/product.h"
#include "accrue/kernels/cpu/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// The part of the output that a tile is about.
struct Extent {
    int64_t row;
    int64_t column;
    int64_t rows;
    int64_t columns;
};

// A finished tile: values kTileColumns apart from row to row.
struct FinishedTile : Extent {
    const float* values;
};

// A tile's part of a matrix in memory.
HWY_INLINE SoonRows rows_in(const void* matrix, int64_t stride, int64_t size, const Extent& tile) {
    return {
        .first = reinterpret_cast<uintptr_t>(matrix) + static_cast<uintptr_t>((tile.row * stride + tile.column) * size),
        .stride = stride * size,
        .bytes = tile.columns * size};
}

// Stores the tiles of one item.
class StoringItem {
public:
    StoringItem(const StoredResult& result, int64_t /*first_column*/, int64_t /*end_column*/) : result_(result) {}

    // What finishing a tile will read and write.
    HWY_INLINE void expect(const Extent& tile, Soon& soon) const {
        const AnyView& output = result_.output;
        soon.result = rows_in(output.data, output.stride, bytes_of(output.dtype), tile);
        if (!result_.residual.empty()) {
            soon.residual = rows_in(result_.residual.data, result_.residual.stride, sizeof(float), tile);
        }
    }

    void finish(const FinishedTile& tile) const {
        if (result_.output.dtype == DType::fp32) {
            store_rows<float>(tile);
        } else {
            store_rows<Bf16>(tile);
        }
    }

    static void finish_cells(GrainRecord* /*records*/) {}

private:
    template <class T>
    void store_rows(const FinishedTile& tile) const {
        for (int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
            const float* values = tile.values + (row - tile.row) * kTileColumns;
            T* to = static_cast<T*>(result_.output.row(row)) + tile.column;
            std::optional<RowDropout> dropout;
            if (result_.dropout.probability > 0) {
                dropout.emplace(result_.dropout, row);
            }
            for (int64_t i = 0; i < tile.columns; i += kLanes) {
                const int64_t left = tile.columns - i;
                store(finished(load(values + i, left), dropout, row, tile.column + i, left), to + i, left);
            }
        }
    }

    HWY_INLINE FloatVector finished(FloatVector value, const std::optional<RowDropout>& dropout, int64_t row,
                                    int64_t column, int64_t left) const {
        if (!result_.bias.empty()) {
            value = hn::Add(value, load(result_.bias.data + column, left));
        }
        if (dropout) {
            value = dropout->apply(value, static_cast<uint64_t>(column));
        }
        if (!result_.residual.empty()) {
            value = hn::Add(load(result_.residual.row(row) + column, left), value);
        }
        return value;
    }

    const StoredResult& result_;
};

// Adds the tiles of one item to a sum, or writes them to the rows held back; each cell has its own record.
class AddingItem {
public:
    AddingItem(const AddedResult& result, int64_t first_column, int64_t end_column)
        : result_(result), first_column_(first_column), cells_(pieces_of(end_column - first_column, kCellColumns)) {
        std::fill_n(adders_, cells_, ValueAdder(result.sum));
    }

    HWY_INLINE void expect(const Extent& tile, Soon& soon) const {
        if (result_.sum.data != nullptr) {
            soon.result = rows_in(result_.sum.data, result_.sum.columns, bytes_of(result_.sum.kind), tile);
        }
    }

    void finish(const FinishedTile& tile) {
        ValueAdder& adder = adders_[(tile.column - first_column_) / kCellColumns];
        for (int64_t r = 0; r < tile.rows; ++r) {
            const int64_t row = tile.row + r;
            const float* values = tile.values + r * kTileColumns;
            const int32_t slot =
                result_.held.slot_of_row.empty() ? -1 : result_.held.slot_of_row[static_cast<size_t>(row)];
            if (slot >= 0) {
                std::copy_n(values, tile.columns, result_.held.values.row(slot) + tile.column);
            } else {
                adder.add(values, tile.columns, row * result_.sum.columns + tile.column);
            }
        }
    }

    // Hands out the records of a finished row of cells; `records` is that row's first.
    void finish_cells(GrainRecord* records) {
        for (int64_t cell = 0; cell < cells_; ++cell) {
            records[first_column_ / kCellColumns + cell] = adders_[cell].record();
            adders_[cell] = ValueAdder(result_.sum);
        }
    }

private:
    const AddedResult& result_;
    int64_t first_column_;
    int64_t cells_;
    ValueAdder adders_[kStripCells];
};

// Some rows of the output whose left side is packed, or lies ready, as `left`.
struct RowBlock {
    int64_t first;
    int64_t rows;
    LeftRows left;
};

// Carries out a product. `Item` says what becomes of the finished tiles of one item.
template <class Item, class Result>
class Multiplication {
public:
    Multiplication(const Product& product, Multiplier multiplier, const Result& result, int threads, std::byte* memory)
        : product_(product),
          packing_(multiplier.packing),
          tiles_(multiplier.tiles),
          tile_rows_(multiplier.tiles ? kAmxRows : kTileRows),
          result_(result),
          words_(words_of(product.shape.depth, multiplier.packing)),
          space_(lay_out(product.shape, threads)),
          memory_(memory) {}

    void run(Pool& pool) const {
        const auto& [rows, columns, depth] = product_.shape;
        const bool ready = lies_in_rows(product_.left, depth, packing_);
        const int64_t block_rows = ready ? rows : left_block_rows(rows, words_);
        for (int64_t first = 0; first < rows; first += block_rows) {
            const OperandBlock block{
                .first_lane = first, .lanes = std::min(block_rows, rows - first), .first_depth = 0, .depth = depth};
            if (!ready) {
                pack_left(pool, block);
            }
            const LeftRows left = ready ? rows_where_they_lie(product_.left, block, packing_)
                                        : LeftRows{left_memory(), words_ + kLeftPadding, block.lanes};
            run_block(pool, {first, block.lanes, left});
        }
    }

    // Of all cells, in their order.
    [[nodiscard]] GrainRecord record() const {
        const int64_t cells =
            pieces_of(product_.shape.rows, kCellRows) * pieces_of(product_.shape.columns, kCellColumns);
        GrainRecord all;
        for (int64_t cell = 0; cell < cells; ++cell) {
            add_record(all, records()[cell]);
        }
        return all;
    }

private:
    [[nodiscard]] uint32_t* left_memory() const { return reinterpret_cast<uint32_t*>(memory_); }
    [[nodiscard]] GrainRecord* records() const { return reinterpret_cast<GrainRecord*>(memory_ + space_.records); }

    // Some lanes at a time, or where these are contiguous some words of all: memory is read in long runs.
    void pack_left(Pool& pool, const OperandBlock& block) const {
        constexpr int64_t kLanesAtATime = 64;
        constexpr int64_t kWordsAtATime = 16;
        const int64_t stride = words_ + kLeftPadding;
        if (product_.left.contiguous == Contiguous::lanes) {
            pool.run(pieces_of(words_, kWordsAtATime), [&](int64_t number, int) {
                const int64_t first = number * kWordsAtATime;
                pack_rows(product_.left, block, {first, std::min(words_, first + kWordsAtATime)}, packing_, stride,
                          left_memory());
            });
            return;
        }
        pool.run(pieces_of(block.lanes, kLanesAtATime), [&](int64_t number, int) {
            const int64_t first = number * kLanesAtATime;
            OperandBlock some = block;
            some.first_lane += first;
            some.lanes = std::min(kLanesAtATime, block.lanes - first);
            pack_rows(product_.left, some, {0, words_}, packing_, stride, left_memory() + first * stride);
        });
    }

    void run_block(Pool& pool, const RowBlock& block) const {
        const ProductPlan plan =
            plan_product({block.rows, product_.shape.columns, product_.shape.depth}, words_, pool.threads());
        pool.run(plan.items(), [&](int64_t number, int thread) { multiply_item(plan, block, number, thread); });
    }

    // One strip of columns and one part of a block's rows, with a thread's own memory.
    struct Strip {
        const RowBlock& block;
        int64_t first_row;  // in the block
        int64_t end_row;
        int64_t first_column;
        int64_t end_column;
        uint32_t* packed;
        float* sums;
    };

    // A slice of the depth, in words.
    struct Slice {
        int64_t first;
        int64_t words;
        bool last;
        [[nodiscard]] bool whole() const { return first == 0 && last; }
    };

    void multiply_item(const ProductPlan& plan, const RowBlock& block, int64_t number, int thread) const {
        std::byte* own = memory_ + space_.strips + thread * space_.strip_bytes;
        const int64_t first_row = number / plan.strips * plan.part_rows;
        const Strip strip{.block = block,
                          .first_row = first_row,
                          .end_row = std::min(block.rows, first_row + plan.part_rows),
                          .first_column = strip_start(plan, product_.shape.columns, number % plan.strips),
                          .end_column = strip_start(plan, product_.shape.columns, number % plan.strips + 1),
                          .packed = reinterpret_cast<uint32_t*>(own),
                          .sums = reinterpret_cast<float*>(own + space_.sums)};
        Item item(result_, strip.first_column, strip.end_column);
        if (tiles_) {
            start_tiles();
        }
        int64_t word = 0;
        do {
            const int64_t words = std::min(plan.slice_words, words_ - word);
            const Slice slice{.first = word, .words = words, .last = word + words == words_};
            pack_strip(strip, slice);
            multiply_slice(strip, slice, item);
            word += words;
        } while (word < words_);
        if (tiles_) {
            end_tiles();
        }
    }

    void pack_strip(const Strip& strip, const Slice& slice) const {
        const int64_t per_word = packing_ == Packing::pairs ? 2 : 1;
        const int64_t first_depth = slice.first * per_word;
        pack_columns(product_.right,
                     {.first_lane = strip.first_column,
                      .lanes = strip.end_column - strip.first_column,
                      .first_depth = first_depth,
                      .depth = std::min(slice.words * per_word, product_.shape.depth - first_depth)},
                     {0, slice.words}, packing_, strip.packed);
    }

    void multiply_slice(const Strip& strip, const Slice& slice, Item& item) const {
        for (int64_t row = strip.first_row; row < strip.end_row; row += tile_rows_) {
            for (int64_t column = strip.first_column; column < strip.end_column; column += kTileColumns) {
                multiply_one(strip, slice, row, column, item);
            }
            const int64_t next = row + tile_rows_;
            if (slice.last && (next % kCellRows == 0 || next >= strip.end_row)) {
                item.finish_cells(records() + (strip.block.first + row) / kCellRows *
                                                  pieces_of(product_.shape.columns, kCellColumns));
            }
        }
    }

    // The left side of the next row of tiles: each tile of this row asks for its share of it.
    HWY_INLINE SoonRows next_left(const Strip& strip, const Slice& slice, int64_t row, int64_t column) const {
        if (row + tile_rows_ >= strip.end_row) {
            return {};
        }
        constexpr int64_t kLineWords = 16;
        const int64_t lines = pieces_of(slice.words, kLineWords);
        const int64_t columns = strip.end_column - strip.first_column;
        const int64_t first = lines * (column - strip.first_column) / columns;
        const int64_t end = lines * std::min(columns, column + kTileColumns - strip.first_column) / columns;
        const LeftRows left = strip.block.left.from(row + tile_rows_, slice.first + first * kLineWords);
        return {.first = reinterpret_cast<uintptr_t>(left.first),
                .stride = left.stride * 4,
                .bytes = (end - first) * kLineWords * 4};
    }

    // What is asked for while the tile at row, column is multiplied: its left side for the tiles below it, and what
    // finishing the tile after it will need. Asked for only now, the tile's own would come too late.
    HWY_INLINE Soon soon_after(const Strip& strip, const Slice& slice, int64_t row, int64_t column,
                               const Item& item) const {
        Soon soon;
        soon.left = next_left(strip, slice, row, column);
        if (!slice.last) {
            return soon;
        }
        const bool below = column + kTileColumns >= strip.end_column;
        const int64_t next_row = below ? row + tile_rows_ : row;
        const int64_t next_column = below ? strip.first_column : column + kTileColumns;
        if (next_row < strip.end_row) {
            item.expect(extent_of(strip, next_row, next_column), soon);
        }
        return soon;
    }

    [[nodiscard]] HWY_INLINE Extent extent_of(const Strip& strip, int64_t row, int64_t column) const {
        return {.row = strip.block.first + row,
                .column = column,
                .rows = std::min(tile_rows_, strip.end_row - row),
                .columns = std::min(kTileColumns, strip.end_column - column)};
    }

    // One tile. Where the depth is sliced, its sums wait in the strip's memory.
    HWY_INLINE void multiply_one(const Strip& strip, const Slice& slice, int64_t row, int64_t column,
                                 Item& item) const {
        HWY_ALIGN float local[std::max(kTileRows, kAmxRows) * kTileColumns];
        const int64_t from_first = column - strip.first_column;
        const int64_t across = round_up(strip.end_column - strip.first_column, kTileColumns);
        float* tile = slice.whole() ? local : strip.sums + (row - strip.first_row) * across + from_first * tile_rows_;
        const Extent extent = extent_of(strip, row, column);
        const Soon soon = soon_after(strip, slice, row, column, item);
        const LeftRows left = strip.block.left.from(row, slice.first);
        const uint32_t* right = strip.packed + from_first * slice.words;
        const int64_t width = panel_width(column, strip.end_column);
        const Chain chain = slice.first == 0 ? Chain::start : Chain::go_on;
        if (tiles_) {
            for (int64_t r = 0; r < extent.rows; ++r) {
                soon.ask_for(r);
            }
            multiply_amx_tile(left, right, width, slice.words, chain, tile);
        } else {
            multiply_tile(left, right, width, slice.words, packing_, chain, tile, soon);
        }
        if (slice.last) {
            item.finish({extent, tile});
        }
    }

    const Product& product_;
    Packing packing_;
    bool tiles_;
    int64_t tile_rows_;
    const Result& result_;
    int64_t words_;
    ProductWorkspace space_;
    std::byte* memory_;
};

void multiply_and_store(Pool& pool, std::byte* memory, const Product& product, Multiplier multiplier,
                        const StoredResult& result) {
    Multiplication<StoringItem, StoredResult>(product, multiplier, result, pool.threads(), memory).run(pool);
}

void multiply_and_add(Pool& pool, std::byte* memory, const Product& product, Multiplier multiplier,
                      const AddedResult& result) {
    Multiplication<AddingItem, AddedResult> multiplication(product, multiplier, result, pool.threads(), memory);
    multiplication.run(pool);
    add_record(*result.sum.record, multiplication.record());
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {
namespace {

template <class Function, class Result>
void run(Function* function, const Context& context, const Product& product, const Result& result) {
    const Arena::Block memory = context.arena.take(lay_out(product.shape, context.pool.threads()).bytes);
    function(context.pool, memory.data(), product, multiplier_of(product.left.dtype, context.set), result);
}

}  // namespace

void multiply(const Context& context, const Product& product, const StoredResult& result) {
    run(pick(context.set, N_SCALAR::multiply_and_store, N_AVX2::multiply_and_store, N_AVX3::multiply_and_store),
        context, product, result);
}

void multiply(const Context& context, const Product& product, const AddedResult& result) {
    run(pick(context.set, N_SCALAR::multiply_and_add, N_AVX2::multiply_and_add, N_AVX3::multiply_and_add), context,
        product, result);
}

}  // namespace accrue::cpu
#endif
