#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/product.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrue/base/clock.h"
#include "accrue/kernels/cpu/finish-inl.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/product-inl.h"
#include "accrue/kernels/cpu/product.h"
#include "accrue/kernels/cpu/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Some rows of the output whose left side is packed, or lies ready, as `left`.
struct RowBlock {
    int64_t first;
    int64_t rows;
    LeftRows left;
    LeftRows cut_pairs;  // where rows lie ready and end with half a pair: that pair, filled up with zero
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
          memory_(memory),
          threads_(threads) {}

    // Does all but the items of the last block of rows.
    void prepare(Pool& pool) {
        run_blocks(pool, [&](const RowBlock& block, bool last) {
            block_ = block;
            plan_ = plan_product({block.rows, product_.shape.columns, product_.shape.depth}, words_, pool.threads());
            if (!last) {
                pool.run(items(), [&](int64_t item, int thread) { run_item(item, thread); });
            }
        });
    }

    [[nodiscard]] int64_t items() const { return std::ssize(plan_.items); }
    void run_item(int64_t item, int thread) const { multiply_item(plan_, block_, item, thread); }

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
    // Packs the left side where it must be, a block of rows at a time, and calls run_block(block, whether it is the last).
    template <class RunBlock>
    void run_blocks(Pool& pool, const RunBlock& run_block) const {
        const auto& [rows, columns, depth] = product_.shape;
        const bool odd = packing_ == Packing::pairs && depth % 2 != 0;
        if (lies_in_rows(product_.left, odd ? depth - 1 : depth, packing_)) {
            const OperandBlock all{.first_lane = 0, .lanes = rows, .first_depth = 0, .depth = depth};
            const LeftRows left = rows_where_they_lie(product_.left, all, packing_);
            run_block(RowBlock{0, rows, left, odd ? last_pairs() : LeftRows{}}, true);
            return;
        }
        const int64_t block_rows = left_block_rows(rows, words_);
        for (int64_t first = 0; first < rows; first += block_rows) {
            const OperandBlock block{
                .first_lane = first, .lanes = std::min(block_rows, rows - first), .first_depth = 0, .depth = depth};
            pack_left(pool, block);
            run_block(RowBlock{first, block.lanes, {left_memory(), words_ + kLeftPadding, block.lanes}, {}},
                      first + block.lanes == rows);
        }
    }

    [[nodiscard]] uint32_t* left_memory() const { return reinterpret_cast<uint32_t*>(memory_); }
    [[nodiscard]] GrainRecord* records() const { return reinterpret_cast<GrainRecord*>(memory_ + space_.records); }

    // The last value of each row beside a zero.
    [[nodiscard]] LeftRows last_pairs() const {
        const auto* values = static_cast<const Bf16*>(product_.left.data);
        for (int64_t row = 0; row < product_.shape.rows; ++row) {
            left_memory()[row] = values[row * product_.left.stride + product_.shape.depth - 1].bits;
        }
        return {left_memory(), 1, product_.shape.rows};
    }

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

    // One strip of columns and one part of a block's rows, with a thread's own memory.
    struct Strip {
        const RowBlock& block;
        int64_t first_row;  // in the block
        int64_t end_row;
        int64_t first_column;
        int64_t end_column;
        uint32_t* packed;
        float* sums;
        SoonRows next_source{};  // what is packed after this strip's slice

        [[nodiscard]] HWY_INLINE int64_t panels() const { return pieces_of(end_column - first_column, kTileColumns); }
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
        const ProductItem& place = plan.items[static_cast<size_t>(number)];
        Strip strip{.block = block,
                    .first_row = place.first_row,
                    .end_row = place.end_row,
                    .first_column = place.first_column,
                    .end_column = place.end_column,
                    .packed = reinterpret_cast<uint32_t*>(own),
                    .sums = reinterpret_cast<float*>(own + space_.sums)};
        Item item(result_, packing_, strip.first_column, strip.end_column);
        if (tiles_) {
            start_tiles();
        }
        int64_t word = 0;
        do {
            const int64_t words = std::min(plan.slice_words, words_ - word);
            const Slice slice{.first = word, .words = words, .last = word + words == words_};
            pack_strip(strip, slice);
            strip.next_source = next_source(plan, number, slice);
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

    // What this thread will probably pack next: the same columns of the next slice, or another item's.
    [[nodiscard]] SoonRows next_source(const ProductPlan& plan, int64_t number, const Slice& slice) const {
        const int64_t next = slice.last ? number + threads_ : number;
        if (next >= std::ssize(plan.items)) {
            return {};
        }
        const int64_t per_word = packing_ == Packing::pairs ? 2 : 1;
        const int64_t first_depth = slice.last ? 0 : (slice.first + slice.words) * per_word;
        const int64_t depth = std::min(plan.slice_words * per_word, product_.shape.depth - first_depth);
        const ProductItem& place = plan.items[static_cast<size_t>(next)];
        const int64_t lane = place.first_column;
        const int64_t lanes = place.end_column - lane;
        const Operand& right = product_.right;
        const int64_t size = bytes_of(right.dtype);
        const bool along_depth = right.contiguous == Contiguous::depth;
        const int64_t first = along_depth ? lane * right.stride + first_depth : first_depth * right.stride + lane;
        return {.first = reinterpret_cast<uintptr_t>(right.data) + static_cast<uintptr_t>(first * size),
                .stride = right.stride * size,
                .bytes = (along_depth ? depth : lanes) * size,
                .count = along_depth ? lanes : depth};
    }

    // A tile's share of what the next strip is packed from.
    HWY_INLINE SoonRows share_of_source(const Strip& strip, int64_t row, int64_t column) const {
        const int64_t panels = strip.panels();
        const int64_t tiles = pieces_of(strip.end_row - strip.first_row, tile_rows_) * panels;
        const int64_t tile =
            (row - strip.first_row) / tile_rows_ * panels + (column - strip.first_column) / kTileColumns;
        const int64_t first = strip.next_source.count * tile / tiles;
        return strip.next_source.from(first, strip.next_source.count * (tile + 1) / tiles - first);
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
                .bytes = (end - first) * kLineWords * 4,
                .count = std::min(tile_rows_, left.count)};
    }

    // What is asked for while the tile at row, column is multiplied: its left side for the tiles below it, and what
    // finishing the tile after it will need. Asked for only now, the tile's own would come too late.
    HWY_INLINE Soon soon_after(const Strip& strip, const Slice& slice, int64_t row, int64_t column,
                               const Item& item) const {
        Soon soon;
        soon.left = next_left(strip, slice, row, column);
        soon.source = share_of_source(strip, row, column);
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
        const bool cut = slice.last && strip.block.cut_pairs.count > 0;
        const int64_t words = cut ? slice.words - 1 : slice.words;
        if (tiles_) {
            for (int64_t part = 0; part < Soon::kParts; ++part) {
                soon.ask_for(part);
            }
            multiply_amx_tile(left, right, width, words, chain, tile);
        } else {
            multiply_tile(left, right, width, words, packing_, chain, tile, soon);
        }
        for (int64_t r = 0; cut && r < extent.rows; r += kTileRows) {
            multiply_tile(strip.block.cut_pairs.from(row + r), right + words * width, width, 1, packing_, Chain::go_on,
                          tile + r * kTileColumns);
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
    int threads_;
    RowBlock block_{};  // that items are of
    ProductPlan plan_;
};

// Owns all that a product needs until it is done.
template <class Item, class Result>
class OwnProduct final : public StartedProduct {
public:
    OwnProduct(Pool& pool, Arena::Block memory, const Product& product, Multiplier multiplier, const Result& result)
        : memory_(std::move(memory)),
          product_(product),
          result_(result),
          multiplication_(product_, multiplier, result_, pool.threads(), memory_.data()) {
        multiplication_.prepare(pool);
    }

    [[nodiscard]] int64_t items() const override { return multiplication_.items(); }
    void run_item(int64_t item, int thread) override { multiplication_.run_item(item, thread); }

    [[nodiscard]] const void* sum() const override {
        if constexpr (std::is_same_v<Result, AddedResult>) {
            return result_.sum.data;
        }
        return nullptr;
    }

    void finish() override {
        if constexpr (std::is_same_v<Result, AddedResult>) {
            add_record(*result_.sum.record, multiplication_.record());
        }
    }

private:
    Arena::Block memory_;
    Product product_;
    Result result_;
    Multiplication<Item, Result> multiplication_;
};

std::unique_ptr<StartedProduct> start_storing(Pool& pool, Arena::Block memory, const Product& product,
                                              Multiplier multiplier, const StoredResult& result) {
    return std::make_unique<OwnProduct<StoringItem, StoredResult>>(pool, std::move(memory), product, multiplier,
                                                                   result);
}

std::unique_ptr<StartedProduct> start_adding(Pool& pool, Arena::Block memory, const Product& product,
                                             Multiplier multiplier, const AddedResult& result) {
    return std::make_unique<OwnProduct<AddingItem, AddedResult>>(pool, std::move(memory), product, multiplier, result);
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {
namespace {

Arena::Block scratch_of(const Context& context, const Product& product) {
    return context.arena.take(lay_out(product.shape, context.pool.threads()).bytes);
}

std::unique_ptr<StartedProduct> start(const Context& context, const Product& product, const StoredResult& result) {
    return pick(context.set, N_SCALAR::start_storing, N_AVX2::start_storing, N_AVX3::start_storing)(
        context.pool, scratch_of(context, product), product, multiplier_of(product.left.dtype, context.set), result);
}

// Runs the items of all products, in order. Returns the share of the threads' time that those before the last one took.
double run_together(Pool& pool, const StartedProducts& products) {
    std::vector<int64_t> ends;
    int64_t items = 0;
    for (const auto& product : products) {
        ends.push_back(items += product->items());
    }
    const int64_t before_last = items - products.back()->items();
    std::atomic<double> seconds{0};
    std::atomic<double> seconds_before{0};
    pool.run(items, [&](int64_t item, int thread) {
        const auto number = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), item) - ends.begin());
        StartedProduct& product = *products[number];
        const Clock::time_point start = Clock::now();
        product.run_item(item - (ends[number] - product.items()), thread);
        const double took = seconds_since(start);
        seconds += took;
        seconds_before += item < before_last ? took : 0;
    });
    for (const auto& product : products) {
        product->finish();
    }
    return seconds > 0 ? seconds_before / seconds : 0;
}

}  // namespace

void multiply(const Context& context, const Product& product, const StoredResult& result) {
    multiply(context, {}, product, result);
}

void multiply(const Context& context, const Product& product, const AddedResult& result) {
    StartedProducts products;
    products.push_back(start(context, product, result));
    run(context, std::move(products));
}

std::unique_ptr<StartedProduct> start(const Context& context, const Product& product, const AddedResult& result) {
    return pick(context.set, N_SCALAR::start_adding, N_AVX2::start_adding, N_AVX3::start_adding)(
        context.pool, scratch_of(context, product), product, multiplier_of(product.left.dtype, context.set), result);
}

double multiply(const Context& context, StartedProducts started, const Product& product, const StoredResult& result) {
    started.push_back(start(context, product, result));
    return run_together(context.pool, started);
}

void run(const Context& context, StartedProducts started) {
    if (!started.empty()) {
        run_together(context.pool, started);
    }
}

}  // namespace accrue::cpu
#endif
