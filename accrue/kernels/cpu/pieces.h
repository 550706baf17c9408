#pragma once

#include <algorithm>
#include <cstdint>

#include "accrue/base/pool.h"
#include "accrue/tensor/view.h"

namespace accrue::cpu {

// Elements of cheap work that outweigh handing an item to another thread.
inline constexpr int64_t kPieceElements = 32768;

// Calls body(first, last) for ranges that together cover 0..count, each of about kPieceElements / cost entries.
// For work whose results do not depend on where a range begins.
template <class Body>
void for_ranges(Pool& pool, int64_t count, int64_t cost, const Body& body) {
    const int64_t range = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(cost, 1));
    pool.run((count + range - 1) / range,
             [&](int64_t item, int) { body(item * range, std::min(count, (item + 1) * range)); });
}

// Calls body(row, column, count) for pieces that together cover a matrix: whole rows, or parts of long ones.
template <class Body>
void for_pieces(Pool& pool, int64_t rows, int64_t columns, const Body& body) {
    if (columns <= kPieceElements) {
        for_ranges(pool, rows, columns, [&](int64_t first, int64_t last) {
            for (int64_t r = first; r < last; ++r) {
                body(r, int64_t{0}, columns);
            }
        });
        return;
    }
    const int64_t pieces = (columns + kPieceElements - 1) / kPieceElements;
    pool.run(rows * pieces, [&](int64_t item, int) {
        const int64_t column = item % pieces * kPieceElements;
        body(item / pieces, column, std::min(kPieceElements, columns - column));
    });
}

// Calls body with the view's element type known: a View<float>, View<Bf16>, or their const forms.
template <class Any, class Body>
void with_type(const Any& view, const Body& body) {
    if (view.dtype == DType::fp32) {
        body(view.template as<float>());
    } else {
        body(view.template as<Bf16>());
    }
}

}  // namespace accrue::cpu
