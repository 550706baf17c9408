#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace accrue {

// The bits of the IEEE half nearest to a float, ties to even. Below 2^-24 it reaches zero, from 65520 on infinity.
[[nodiscard]] inline uint16_t half_of_float(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((word >> 16) & 0x8000U);
    const uint32_t magnitude = word & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {
        return static_cast<uint16_t>(sign | 0x7e00U);
    }
    if (magnitude >= 0x477ff000U) {  // 65520: half way from the largest half, 65504, to what would be 65536
        return static_cast<uint16_t>(sign | 0x7c00U);
    }
    if (magnitude < 0x38800000U) {  // 2^-14: from here down halves are multiples of 2^-24
        const float steps = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24F);
        return static_cast<uint16_t>(sign | static_cast<uint16_t>(steps));
    }
    const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
    constexpr uint32_t kBiases = (127U - 15U) << 10;
    return static_cast<uint16_t>(sign | ((rounded >> 13) - kBiases));
}

// The float that has the value of a half.
[[nodiscard]] inline float float_of_half(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
    const uint32_t exponent = (half >> 10) & 0x1fU;
    const uint32_t fraction = half & 0x3ffU;
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
        return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
    }
    const uint32_t wide = exponent == 0x1fU ? 0xffU : exponent + 127 - 15;
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

}  // namespace accrue
