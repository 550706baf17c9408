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

enum class DType { fp32, bf16 };

[[nodiscard]] constexpr int64_t bytes_of(DType dtype) {
    return dtype == DType::fp32 ? 4 : 2;
}

[[nodiscard]] constexpr std::string_view name_of(DType dtype) {
    return dtype == DType::fp32 ? "fp32" : "bf16";
}

template <class T>
inline constexpr DType dtype_of = DType::fp32;
template <>
inline constexpr DType dtype_of<Bf16> = DType::bf16;

}  // namespace accrue
