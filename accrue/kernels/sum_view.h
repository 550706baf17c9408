#pragma once

#include <cstdint>

#include "accrue/tensor/view.h"

namespace accrue {

// How gradients are added up over a window.
enum class SumKind {
    exact,  // int64 multiples of a unit: any order gives the same bits
    fp32,   // floats, added in grain order
};

[[nodiscard]] constexpr int64_t bytes_of(SumKind kind) {
    return kind == SumKind::exact ? 8 : 4;
}

// What is known of one tensor's gradient in one grain, after that grain was added.
struct GrainRecord {
    double squares = 0;  // of its elements, summed
    float largest = 0;   // of |element|, over the finite ones
    bool finite = true;  // no NaN and no infinity

    bool operator==(const GrainRecord&) const = default;
};

// Where one grain's gradient of one tensor goes: the window's sum of that tensor, and the grain's record.
//   exact:  sum[i] += round_to_even(value[i] * per_unit), a 64-bit integer; wraps, never traps
//   fp32:   sum[i] += value[i]
// With data == nullptr nothing is added and only the record is filled (a probe).
// The record is added to: squares add up, largest is a maximum, finite an "and". A value that is not finite adds 0.
struct SumView {
    SumKind kind = SumKind::exact;
    void* data = nullptr;
    int64_t rows = 0;
    int64_t columns = 0;
    double per_unit = 1;  // a power of two
    GrainRecord* record = nullptr;

    [[nodiscard]] int64_t elements() const { return rows * columns; }
};

// The mean gradient of a tensor, as a view of its sum: element i is sum[i] * factor. Owns nothing.
struct MeanView {
    SumKind kind = SumKind::exact;
    const void* data = nullptr;
    int64_t elements = 0;
    double factor = 1;  // unit / weight of the window, times the clip factor
};

}  // namespace accrue
