#pragma once

#include <cstdint>

#include "accrue/tensor/view.h"

namespace accrue {

// How gradients are added up over a window.
enum class SumKind {
    exact,            // int64 multiples of a unit: any order gives the same bits
    fp32,             // floats; this and all that follow are added in grain order
    bf16,             // rounded to nearest at each addition: what is below 1/512 of the sum is lost
    bf16_stochastic,  // rounded up or down at each addition, by chance, so that the mean error is 0
    bf16_kahan,       // two bf16: the sum, and what its roundings have lost
};

[[nodiscard]] constexpr int64_t bytes_of(SumKind kind) {
    switch (kind) {
        case SumKind::exact:
            return 8;
        case SumKind::bf16:
        case SumKind::bf16_stochastic:
            return 2;
        default:
            return 4;
    }
}

// A sum in bf16 and what is missing in it: together they are the sum to about 16 binary digits.
struct KahanBf16 {
    Bf16 sum;
    Bf16 lost;
};
static_assert(sizeof(KahanBf16) == 4);

// What is known of one tensor's gradient in one grain, after that grain was added. All bytes 0 = nothing was added yet.
struct GrainRecord {
    double squares = 0;       // of its elements, summed
    float largest = 0;        // of |element|, over the finite ones
    bool not_finite = false;  // a NaN or an infinity was among them

    bool operator==(const GrainRecord&) const = default;
};

// Where one grain's gradient of one tensor goes: the window's sum of that tensor, and the grain's record, both on the device.
//   exact:  sum[i] += round_to_even(value[i] * per_unit), a 64-bit integer; wraps, never traps
//   fp32:   sum[i] += value[i]
//   bf16, bf16_stochastic, bf16_kahan: as bf16_sum.h says; adding 0 leaves a sum alone
// With data == nullptr nothing is added and only the record is filled (a probe).
// The record is added to: squares add up, largest is a maximum, not_finite an "or". A value that is not finite adds 0.
struct SumView {
    SumKind kind = SumKind::exact;
    void* data = nullptr;
    int64_t rows = 0;
    int64_t columns = 0;
    double per_unit = 1;            // exact: a power of two
    uint64_t rounding_key = 0;      // bf16_stochastic: seed, step, grain and tensor, mixed
    GrainRecord* record = nullptr;  // nothing: the tensor is frozen, and nobody wants its gradient
    // Loss scaling: what the kernels compute is the gradient times a power of two, whose inverse this is. Values are
    // multiplied by it before anything else is done with them: sums and records are those of the gradient itself.
    float unscale = 1;
    // Where a device that adds later may leave the grain's gradient until CompleteSums, in fp32 and without gaps; nothing =
    // it must add at once.
    float* waiting = nullptr;

    [[nodiscard]] bool is_wanted() const { return record != nullptr; }
    [[nodiscard]] int64_t elements() const { return rows * columns; }
};

// The mean gradient of a tensor, as a view of its sum: element i is sum[i] * factor, with bf16_kahan (sum[i] + lost[i]) *
// factor. Owns nothing.
struct MeanView {
    SumKind kind = SumKind::exact;
    const void* data = nullptr;
    int64_t elements = 0;
    double factor = 1;  // unit / weight of the window, times the clip factor

    // Element i, where the sum can be read: in kernels, or of sums that were downloaded.
    [[nodiscard]] double at(int64_t i) const {
        switch (kind) {
            case SumKind::exact:
                return static_cast<double>(static_cast<const int64_t*>(data)[i]) * factor;
            case SumKind::fp32:
                return static_cast<double>(static_cast<const float*>(data)[i]) * factor;
            case SumKind::bf16_kahan: {
                const auto& [sum, lost] = static_cast<const KahanBf16*>(data)[i];
                return (static_cast<double>(static_cast<float>(sum)) + static_cast<double>(static_cast<float>(lost))) *
                       factor;
            }
            default:
                return static_cast<double>(static_cast<float>(static_cast<const Bf16*>(data)[i])) * factor;
        }
    }
};

}  // namespace accrue
