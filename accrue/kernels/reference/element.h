#pragma once

#include <cmath>
#include <cstdint>

#include "accrue/base/random.h"
#include "accrue/kernels/bf16_sum.h"
#include "accrue/kernels/operations.h"

namespace accrue::reference {

// Element (r, c) of a matrix of any dtype.
[[nodiscard]] inline double value(const AnyConstView& view, int64_t r, int64_t c) {
    const int64_t place = r * view.stride + c;
    switch (view.dtype) {
        case DType::bf16:
            return static_cast<float>(static_cast<const Bf16*>(view.data)[place]);
        case DType::fp16:
            return static_cast<float>(static_cast<const Fp16*>(view.data)[place]);
        default:
            return static_cast<const float*>(view.data)[place];
    }
}

// What a number becomes as an element of that dtype: rounded to fp32, and then to the dtype.
[[nodiscard]] inline float rounded(double x, DType dtype) {
    const auto narrow = static_cast<float>(x);
    switch (dtype) {
        case DType::bf16:
            return static_cast<float>(Bf16(narrow));
        case DType::fp16:
            return static_cast<float>(Fp16(narrow));
        default:
            return narrow;
    }
}

// Writes element (r, c), rounded to fp32 and then to the dtype of the view.
inline void store(const AnyView& view, int64_t r, int64_t c, double x) {
    const int64_t place = r * view.stride + c;
    const auto narrow = static_cast<float>(x);
    switch (view.dtype) {
        case DType::bf16:
            static_cast<Bf16*>(view.data)[place] = Bf16(narrow);
            break;
        case DType::fp16:
            static_cast<Fp16*>(view.data)[place] = Fp16(narrow);
            break;
        default:
            static_cast<float*>(view.data)[place] = narrow;
    }
}

// Weight [o, i], wherever it lies.
[[nodiscard]] inline double value(const WeightView& weight, int64_t o, int64_t i) {
    return weight.layout == WeightLayout::out_in ? value(weight.matrix, o, i) : value(weight.matrix, i, o);
}

// What dropout multiplies element (r, c) by: 0, or 1 / (1 - probability).
[[nodiscard]] inline double dropout_factor(const Dropout& dropout, int64_t r, uint64_t c) {
    if (dropout.probability == 0) {
        return 1;
    }
    const uint64_t hash = mix(mix(dropout.site, dropout.rows.data[r]) + c * 0x9e3779b97f4a7c15ULL);
    const double probability = dropout.probability;
    return static_cast<double>(hash >> 32) >= probability * 0x1p32 ? 1 / (1 - probability) : 0;
}

// The slot that holds back this row of a weight gradient, or -1.
[[nodiscard]] inline int32_t slot_of(const HeldRows& held, int64_t row) {
    return held.slot_of_row.empty() ? -1 : held.slot_of_row.data[row];
}

// Element i of a mean gradient.
[[nodiscard]] inline double value(const MeanView& gradient, int64_t i) {
    return gradient.at(i);
}

// round_to_even(x) as a 64-bit integer. What does not fit becomes 0: the record's `largest` tells that the window
// must be replayed with a larger unit, so the value is never used.
[[nodiscard]] inline uint64_t whole_units(double x) {
    return std::abs(x) < 0x1p63 ? static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(x))) : 0;
}

inline void add_to_bf16(const SumView& sum, int64_t place, float x) {
    if (sum.kind == SumKind::bf16_kahan) {
        KahanBf16& element = static_cast<KahanBf16*>(sum.data)[place];
        element = added_with_loss(element, x);
        return;
    }
    Bf16& element = static_cast<Bf16*>(sum.data)[place];
    element = sum.kind == SumKind::bf16
                  ? added_to_nearest(element, x)
                  : added_by_chance(element, x, random_bits(sum.rounding_key, static_cast<uint64_t>(place)) >> 16);
}

// Adds a grain's total of element (r, c), without its loss scale, to the window's sum and to the grain's record.
inline void add(const SumView& sum, int64_t r, int64_t c, double total) {
    const float x = static_cast<float>(total) * sum.unscale;
    if (!std::isfinite(x)) {
        sum.record->not_finite = true;
        return;
    }
    sum.record->squares += static_cast<double>(x) * x;
    sum.record->largest = std::fmax(sum.record->largest, std::abs(x));
    const int64_t place = r * sum.columns + c;
    if (sum.data == nullptr) {
        return;
    }
    switch (sum.kind) {
        case SumKind::exact:
            static_cast<uint64_t*>(sum.data)[place] += whole_units(x * sum.per_unit);  // unsigned, so that it wraps
            break;
        case SumKind::fp32:
            static_cast<float*>(sum.data)[place] += x;
            break;
        default:
            add_to_bf16(sum, place, x);
    }
}

// Adds the sums over some rows of a matrix: a bias's gradient.
inline void add_column_sums(const AnyConstView& matrix, const RowRange& rows, const SumView& sums) {
    for (int64_t c = 0; c < matrix.columns; ++c) {
        double sum = 0;
        for (int64_t r = rows.first; r < rows.first + rows.rows; ++r) {
            sum += value(matrix, r, c);
        }
        add(sums, 0, c, sum);
    }
}

}  // namespace accrue::reference
