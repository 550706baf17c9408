#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace accrue {

// A bfloat16: the upper half of a float. Arithmetic is done in float; conversion rounds to nearest, ties to even.
struct Bf16 {
    uint16_t bits = 0;

    Bf16() = default;
    explicit Bf16(float value) {
        const auto word = std::bit_cast<uint32_t>(value);
        const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
        bits = is_nan ? static_cast<uint16_t>((word >> 16) | 0x40U)
                      : static_cast<uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
    }
    explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// An IEEE half: 11 binary digits up to 65,504, and subnormal ones below 2^-14. Arithmetic is done in float; conversion
// rounds to nearest, ties to even, and beyond the largest to infinity.
struct Fp16 {
    uint16_t bits = 0;

    Fp16() = default;
    explicit Fp16(float value) {
        const auto word = std::bit_cast<uint32_t>(value);
        const auto sign = static_cast<uint16_t>((word >> 16) & 0x8000U);
        const uint32_t size = word & 0x7fffffffU;
        if (size > 0x7f800000U) {
            bits = static_cast<uint16_t>(sign | 0x7e00U | ((size >> 13) & 0x1ffU));
        } else if (size >= 0x477ff000U) {
            bits = static_cast<uint16_t>(sign | 0x7c00U);
        } else if (size >= 0x38800000U) {
            bits = static_cast<uint16_t>(sign | ((size + 0xfffU + ((size >> 13) & 1U) - 0x38000000U) >> 13));
        } else {
            // The sum with 1/2 has its last place where a subnormal half has it, so the addition rounds.
            const float shifted = std::bit_cast<float>(size) + 0.5F;
            bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
        }
    }
    explicit operator float() const {
        const uint32_t sign = (bits & 0x8000U) << 16;
        const uint32_t size = bits & 0x7fffU;
        if (size >= 0x7c00U) {
            return std::bit_cast<float>(sign | 0x7f800000U | ((size & 0x3ffU) << 13));
        }
        // 2^112 moves the exponent of a half to that of a float, and makes subnormal halves normal.
        const float value = std::bit_cast<float>(size << 13) * 0x1p112F;
        return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
    }
};

enum class DType { fp32, bf16, fp16 };

[[nodiscard]] constexpr int64_t bytes_of(DType dtype) {
    return dtype == DType::fp32 ? 4 : 2;
}

[[nodiscard]] constexpr std::string_view name_of(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return "bf16";
        case DType::fp16:
            return "fp16";
        default:
            return "fp32";
    }
}

template <class T>
inline constexpr DType dtype_of = DType::fp32;
template <>
inline constexpr DType dtype_of<Bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<Fp16> = DType::fp16;

}  // namespace accrue
