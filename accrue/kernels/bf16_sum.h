#pragma once

#include <bit>
#include <cstdint>

#include "accrue/kernels/sum_view.h"

// What adding a grain's value to a sum in bf16 means, to the bit. Arithmetic is in float.
namespace accrue {

// bf16: the nearest to sum + value, ties to even.
[[nodiscard]] inline Bf16 added_to_nearest(Bf16 sum, float value) {
    return Bf16(static_cast<float>(sum) + value);
}

// bf16_stochastic: one of the two neighbours of sum + value, with `random` in 0 .. 65535 the farther one with the
// probability that makes the mean right. A sum + value that is a bf16 itself stays.
[[nodiscard]] inline Bf16 added_by_chance(Bf16 sum, float value, uint32_t random) {
    Bf16 result;
    result.bits = static_cast<uint16_t>((std::bit_cast<uint32_t>(static_cast<float>(sum) + value) + random) >> 16);
    return result;
}

// bf16_kahan: what the last roundings lost is added with the value, and what this one loses is kept. Adding 0 changes
// nothing, so that it does not matter whether a grain that has nothing for an element touches it.
[[nodiscard]] inline KahanBf16 added_with_loss(KahanBf16 sum, float value) {
    if (value == 0) {
        return sum;
    }
    const auto before = static_cast<float>(sum.sum);
    const float wanted = value + static_cast<float>(sum.lost);
    const Bf16 after(before + wanted);
    return {.sum = after, .lost = Bf16((before - static_cast<float>(after)) + wanted)};
}

}  // namespace accrue
