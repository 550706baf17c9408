// What becomes of a product's finished tiles: they are stored, or added to a sum. For inclusion in each target's pass.
#if defined(ACCRUE_KERNELS_CPU_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_FINISH_INL_H_
#undef ACCRUE_KERNELS_CPU_FINISH_INL_H_
#else
#define ACCRUE_KERNELS_CPU_FINISH_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <hwy/highway.h>

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
        .bytes = tile.columns * size,
        .count = tile.rows};
}

// Stores the tiles of one item.
class StoringItem {
public:
    StoringItem(const StoredResult& result, Packing packing, int64_t /*first_column*/, int64_t /*end_column*/)
        : result_(result), packing_(packing) {}

    // What finishing a tile will read and write.
    HWY_INLINE void expect(const Extent& tile, Soon& soon) const {
        const AnyView& output = result_.output;
        soon.result = rows_in(output.data, output.stride, bytes_of(output.dtype), tile);
        if (!result_.residual.empty()) {
            soon.residual = rows_in(result_.residual.data, result_.residual.stride, sizeof(float), tile);
        }
    }

    void finish(const FinishedTile& tile) const {
        const bool whole = tile.columns == kTileColumns && result_.dropout.probability == 0;
        if (result_.output.dtype == DType::fp32) {
            whole ? store_whole_rows<float>(tile) : store_rows<float>(tile);
        } else {
            whole&& packing_ == Packing::pairs ? store_whole_rows<Bf16>(tile) : store_rows<Bf16>(tile);
        }
    }

    static void finish_cells(GrainRecord* /*records*/) {}

private:
    // All columns of a tile, nothing dropped.
    template <class T>
    void store_whole_rows(const FinishedTile& tile) const {
        const Floats d;
        FloatVector bias[kTileVectors];
        for (int64_t v = 0; v < kTileVectors; ++v) {
            bias[v] = result_.bias.empty() ? hn::Zero(d) : hn::LoadU(d, result_.bias.data + tile.column + v * kLanes);
        }
        for (int64_t r = 0; r < tile.rows; ++r) {
            T* to = static_cast<T*>(result_.output.row(tile.row + r)) + tile.column;
            const float* residual =
                result_.residual.empty() ? nullptr : result_.residual.row(tile.row + r) + tile.column;
            for (int64_t v = 0; v < kTileVectors; ++v) {
                auto value = hn::Add(hn::Load(d, tile.values + r * kTileColumns + v * kLanes), bias[v]);
                if (residual != nullptr) {
                    value = hn::Add(hn::LoadU(d, residual + v * kLanes), value);
                }
                store_quickly(value, to + v * kLanes);
            }
        }
    }

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
    Packing packing_;
};

// A tile's columns as rows, `tile.rows` values each.
inline void turn(const FinishedTile& tile, float* turned) {
#if HWY_TARGET == HWY_AVX3
    if (tile.rows == 8 && tile.columns == kTileColumns) {
        for (int64_t v = 0; v < kTileVectors; ++v) {
            turn_eight_rows(tile.values + v * kLanes, kTileColumns, turned + v * kLanes * 8);
        }
        return;
    }
#endif
    const Source<float> source{.data = tile.values, .stride = kTileColumns, .lanes = tile.columns, .depth = tile.rows};
    pack_rows_along_lanes<Packing::floats>(source, {0, tile.rows}, tile.rows, reinterpret_cast<uint32_t*>(turned));
}

// Adds the tiles of one item to a sum, or writes them to the rows held back; each cell has its own record.
class AddingItem {
public:
    AddingItem(const AddedResult& result, Packing /*packing*/, int64_t first_column, int64_t end_column)
        : result_(result), first_column_(first_column), cells_(pieces_of(end_column - first_column, kCellColumns)) {
        std::fill_n(adders_, cells_, ValueAdder(result.sum));
    }

    HWY_INLINE void expect(const Extent& tile, Soon& soon) const {
        if (result_.sum.data != nullptr) {
            soon.result = rows_in(result_.sum.data, result_.sum.columns, bytes_of(result_.sum.kind), in_sum(tile));
        }
    }

    void finish(const FinishedTile& tile) {
        HWY_ALIGN float turned[std::max(kTileRows, kAmxRows) * kTileColumns];
        ValueRows values{.first = tile.values, .stride = kTileColumns, .rows = tile.rows, .columns = tile.columns};
        if (result_.turned) {
            turn(tile, turned);
            values = {.first = turned, .stride = tile.rows, .rows = tile.columns, .columns = tile.rows};
        }
        ValueAdder& adder = adders_[(tile.column - first_column_) / kCellColumns];
        const Extent place = in_sum(tile);
        for (int64_t r = 0; r < place.rows;) {
            const float* row = values.first + r * values.stride;
            const int64_t end = end_of_free_rows(place.row + r, place.row + place.rows) - place.row;
            if (end == r) {
                const int32_t slot = result_.held.slot_of_row.data[place.row + r];
                std::copy_n(row, place.columns, result_.held.values.row(slot) + place.column);
                ++r;
            } else {
                adder.add({.first = row, .stride = values.stride, .rows = end - r, .columns = place.columns},
                          (place.row + r) * result_.sum.columns + place.column, result_.sum.columns);
                r = end;
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
    [[nodiscard]] HWY_INLINE Extent in_sum(const Extent& tile) const {
        return result_.turned
                   ? Extent{.row = tile.column, .column = tile.row, .rows = tile.columns, .columns = tile.rows}
                   : tile;
    }

    // The first row from `row` on that is held back, or `end`.
    [[nodiscard]] HWY_INLINE int64_t end_of_free_rows(int64_t row, int64_t end) const {
        if (result_.held.slot_of_row.empty()) {
            return end;
        }
        const int32_t* slots = result_.held.slot_of_row.data;
        return std::find_if(slots + row, slots + end, [](int32_t slot) { return slot >= 0; }) - slots;
    }

    const AddedResult& result_;
    int64_t first_column_;
    int64_t cells_;
    ValueAdder adders_[kStripCells];
};

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
