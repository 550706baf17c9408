#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "accrue/base/random.h"
#include "accrue/kernels/moment_view.h"

// Moments of an optimizer in 8 bits, blockwise as in Dettmers et al., "8-bit Optimizers via Block-wise Quantization",
// with codes of our own:
//   first moment, velocity:  value = sign(code) * (code / 127)^2 * scale, code in -127 .. 127
//   second moment:           value = (code / 255)^4 * scale,              code in 0 .. 255
// A block's scale is its largest |value|, so each block has its own range, and the powers put most codes near zero: the
// root of a second moment is kept down to 1/65025 of the block's largest.
//
// An update moves a second moment by less than a code's width: rounding to nearest would stop it. So a value becomes one
// of its two neighbours by chance, with the probability that makes the mean right; chance is a function of seed, step
// and element. A second moment that is not 0 never becomes 0, because a step is divided by its root.
namespace accrue {

// How far a value must be on its way to the upper neighbour to become that: both in (0, 1), from one element's random
// bits.
[[nodiscard]] inline float chance_of_first(uint32_t random) {
    return (static_cast<float>(random & 0xffffU) + 0.5F) * 0x1p-16F;
}
[[nodiscard]] inline float chance_of_second(uint32_t random) {
    return (static_cast<float>(random >> 16) + 0.5F) * 0x1p-16F;
}

inline constexpr float kFirstCodes = 127;
inline constexpr float kFirstSteps = 127 * 127;
inline constexpr float kSecondCodes = 255;
inline constexpr float kSecondRoot = 1 / 65025.0F;
inline constexpr float kSecondSteps = 65025.0F * 65025.0F;
// A square that fits no float counts as this much.
inline constexpr float kLargestSecond = 0x1p127F;

[[nodiscard]] inline float decoded_first(uint8_t code, float scale) {
    const auto root = static_cast<float>(std::bit_cast<int8_t>(code));
    return root * std::abs(root) * (scale / kFirstSteps);
}

[[nodiscard]] inline float decoded_second(uint8_t code, float scale) {
    const float root = static_cast<float>(code) * static_cast<float>(code) * kSecondRoot;
    return root * (root * scale);
}

// For a scale above 0.
[[nodiscard]] inline uint8_t encoded_first(float value, float scale, float chance) {
    const float steps = std::abs(value) / scale * kFirstSteps;
    const float low = std::floor(std::sqrt(steps));
    const bool up = chance * (low + low + 1) < steps - low * low;
    const float code = std::copysign(std::min(low + (up ? 1.0F : 0.0F), kFirstCodes), value);
    return static_cast<uint8_t>(static_cast<int8_t>(code));
}

[[nodiscard]] inline uint8_t encoded_second(float value, float scale, float chance) {
    const auto fourth = [](float x) { return x * x * (x * x); };
    const float steps = value / scale * kSecondSteps;
    const float low = std::floor(std::sqrt(std::sqrt(steps)));
    const bool up = chance * (fourth(low + 1) - fourth(low)) < steps - fourth(low);
    const float code = std::min(low + (up ? 1.0F : 0.0F), kSecondCodes);
    return static_cast<uint8_t>(value > 0 ? std::max(code, 1.0F) : code);
}

}  // namespace accrue
