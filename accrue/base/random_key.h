#pragma once

#include <cstdint>

namespace accrue {

// The key with which element i has the random bits that element `first` + i has with `key`, so that a part of a tensor can be
// treated as a tensor by itself: random_bits(key_from(key, first), i) == random_bits(key, first + i) (random.h).
[[nodiscard]] constexpr uint64_t key_from(uint64_t key, int64_t first) {
    const uint32_t low = static_cast<uint32_t>(key) + static_cast<uint32_t>(first) * 0x9e3779b9U;
    return (key & 0xffffffff00000000ULL) | low;
}

}  // namespace accrue
