#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/product.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>

#include "accrue/kernels/cpu/dropout-inl.h"
#include "accrue/kernels/cpu/exact_add-inl.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/product-inl.h"
#include "accrue/kernels/cpu/product.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// A finished part of the output: the rows and columns of one tile, values kTileColumns apart from row to row.
struct FinishedTile {
    const float* values;
    int64_t row;
    int64_t column;
    int64_t rows;
    int64_t columns;
};

// Stores the tiles of one item.
class StoringItem {
public:
    explicit StoringItem(const StoredResult& result) : result_(result) {}

    void finish(const FinishedTile& tile) const {
        if (result_.output.dtype == DType::fp32) {
            store_rows<float>(tile);
        } else {
            store_rows<Bf16>(tile);
        }
    }

    [[nodiscard]] static GrainRecord record() { return {}; }

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

// Adds the tiles of one item to a sum, or writes them to the rows held back.
class AddingItem {
public:
    explicit AddingItem(const AddedResult& result) : result_(result), adder_(result.sum) {}

    void finish(const FinishedTile& tile) {
        for (int64_t r = 0; r < tile.rows; ++r) {
            const int64_t row = tile.row + r;
            const float* values = tile.values + r * kTileColumns;
            const int32_t slot =
                result_.held.slot_of_row.empty() ? -1 : result_.held.slot_of_row[static_cast<size_t>(row)];
            if (slot >= 0) {
                std::copy_n(values, tile.columns, result_.held.values.row(slot) + tile.column);
            } else {
                adder_.add(values, tile.columns, row * result_.sum.columns + tile.column);
            }
        }
    }

    [[nodiscard]] GrainRecord record() const { return adder_.record(); }

private:
    const AddedResult& result_;
    ValueAdder adder_;
};

// One block of the output and one slice of the depth: what is packed and multiplied in one round of the pool.
struct Round {
    int64_t row = 0;
    int64_t rows = 0;
    int64_t column = 0;
    int64_t columns = 0;
    int64_t depth = 0;   // where the slice begins
    int64_t values = 0;  // how many it has
    bool packs_left = true;
    bool packs_right = true;
    bool last_slice = true;
};

// Carries out a product round by round. `Item` says what becomes of the finished tiles of one item.
template <class Item, class Result>
class Multiplication {
public:
    Multiplication(const Product& product, Packing packing, const Result& result, std::byte* memory)
        : product_(product), packing_(packing), result_(result), plan_(plan_product(product.shape)) {
        const ProductWorkspace space = lay_out(product.shape);
        left_ = reinterpret_cast<uint32_t*>(memory);
        right_ = reinterpret_cast<uint32_t*>(memory + space.right);
        sums_ = reinterpret_cast<float*>(memory + space.sums);
        next_record_ = records_ = reinterpret_cast<GrainRecord*>(memory + space.records);
    }

    void run(Pool& pool) {
        const ProductShape& shape = product_.shape;
        const int64_t slice = kSliceWords * (packing_ == Packing::pairs ? 2 : 1);
        Round round;
        Round previous{.row = -1, .column = -1};
        for (round.column = 0; round.column < shape.columns; round.column += plan_.block_columns) {
            round.columns = std::min(plan_.block_columns, shape.columns - round.column);
            for (round.row = 0; round.row < shape.rows; round.row += plan_.block_rows) {
                round.rows = std::min(plan_.block_rows, shape.rows - round.row);
                round.depth = 0;
                do {
                    round.values = std::min(slice, shape.depth - round.depth);
                    round.last_slice = round.depth + round.values == shape.depth;
                    round.packs_left = round.row != previous.row || round.depth != previous.depth;
                    round.packs_right = round.column != previous.column || round.depth != previous.depth;
                    run_round(pool, round);
                    previous = round;
                    round.depth += round.values;
                } while (round.depth < shape.depth);
            }
        }
    }

    // Of all items, in their order.
    [[nodiscard]] GrainRecord record() const {
        GrainRecord all;
        for (const GrainRecord* record = records_; record != next_record_; ++record) {
            add_record(all, *record);
        }
        return all;
    }

private:
    // Lanes that are packed at a time: whole tiles of every instruction set.
    static constexpr int64_t kPackedRows = 64;
    static constexpr int64_t kPackedColumns = 96;

    // Items are handed out in order, so whoever waits for packed panels knows that others are at work on them.
    void run_round(Pool& pool, const Round& round) {
        const int64_t left_packs = round.packs_left ? pieces_of(round.rows, kPackedRows) : 0;
        const int64_t right_packs = round.packs_right ? pieces_of(round.columns, kPackedColumns) : 0;
        const int64_t packs = left_packs + right_packs;
        std::atomic<int64_t> packed{0};
        pool.run(packs + items_of(plan_, round.rows, round.columns), [&](int64_t number, int) {
            if (number < packs) {
                if (number < left_packs) {
                    pack_left(round, number * kPackedRows);
                } else {
                    pack_right(round, (number - left_packs) * kPackedColumns);
                }
                packed.fetch_add(1, std::memory_order_release);
                return;
            }
            while (packed.load(std::memory_order_acquire) < packs) {
                std::this_thread::yield();
            }
            multiply_item(round, number - packs);
        });
        if (round.last_slice) {
            next_record_ += items_of(plan_, round.rows, round.columns);
        }
    }

    void pack_left(const Round& round, int64_t first) const {
        pack_rows(product_.left,
                  {.first_lane = round.row + first,
                   .lanes = std::min(kPackedRows, round.rows - first),
                   .first_depth = round.depth,
                   .depth = round.values},
                  packing_, left_ + first * words_of(round.values, packing_));
    }

    void pack_right(const Round& round, int64_t first) const {
        pack_columns(product_.right,
                     {.first_lane = round.column + first,
                      .lanes = std::min(kPackedColumns, round.columns - first),
                      .first_depth = round.depth,
                      .depth = round.values},
                     packing_, right_ + first * words_of(round.values, packing_));
    }

    void multiply_item(const Round& round, int64_t number) const {
        const int64_t across = pieces_of(round.columns, plan_.item_columns);
        const int64_t first_row = number / across * plan_.item_rows;
        const int64_t first_column = number % across * plan_.item_columns;
        const int64_t end_row = std::min(round.rows, first_row + plan_.item_rows);
        const int64_t end_column = std::min(round.columns, first_column + plan_.item_columns);
        Item item(result_);
        for (int64_t row = first_row; row < end_row; row += kTileRows) {
            for (int64_t column = first_column; column < end_column; column += kTileColumns) {
                multiply_one(round, row, column, item);
            }
        }
        if (round.last_slice) {
            next_record_[number] = item.record();
        }
    }

    // A block whose depth is sliced keeps its tiles between rounds; otherwise one tile in the cache is enough.
    HWY_INLINE void multiply_one(const Round& round, int64_t row, int64_t column, Item& item) const {
        HWY_ALIGN float local[kTileElements];
        const int64_t words = words_of(round.values, packing_);
        const bool whole = round.depth == 0 && round.last_slice;
        const int64_t across = pieces_of(round.columns, kTileColumns);
        float* tile = whole ? local : sums_ + (row / kTileRows * across + column / kTileColumns) * kTileElements;
        multiply_tile(left_ + row * words, right_ + column * words, panel_width(column, round.columns), words, packing_,
                      round.depth == 0 ? Chain::start : Chain::go_on, tile);
        if (round.last_slice) {
            item.finish({.values = tile,
                         .row = round.row + row,
                         .column = round.column + column,
                         .rows = std::min(kTileRows, round.rows - row),
                         .columns = std::min(kTileColumns, round.columns - column)});
        }
    }

    const Product& product_;
    Packing packing_;
    const Result& result_;
    ProductPlan plan_;
    uint32_t* left_;
    uint32_t* right_;
    float* sums_;
    GrainRecord* records_;
    GrainRecord* next_record_;
};

void multiply_and_store(Pool& pool, std::byte* memory, const Product& product, Packing packing,
                        const StoredResult& result) {
    Multiplication<StoringItem, StoredResult>(product, packing, result, memory).run(pool);
}

void multiply_and_add(Pool& pool, std::byte* memory, const Product& product, Packing packing,
                      const AddedResult& result) {
    Multiplication<AddingItem, AddedResult> multiplication(product, packing, result, memory);
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
    const Arena::Block memory = context.arena.take(lay_out(product.shape).bytes);
    function(context.pool, memory.data(), product, packing_of(product.left.dtype, context.set), result);
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
