#include "accrue/base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace accrue {

float normal(uint64_t hash) {
    // 1 - u keeps the logarithm's argument above zero.
    const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(hash >> 40) * 0x1p-24));
    const double angle = 2.0 * std::numbers::pi * static_cast<double>((hash >> 8) & 0xffffffU) * 0x1p-24;
    return static_cast<float>(radius * std::cos(angle));
}

Permutation::Permutation(uint64_t seed, uint64_t size)
    : seed_(seed), size_(size), half_bits_((static_cast<int>(std::bit_width(size > 1 ? size - 1 : 1)) + 1) / 2) {}

uint64_t Permutation::operator[](uint64_t index) const {
    const uint64_t half_mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t value = index;
    do {
        uint64_t left = value >> half_bits_;
        uint64_t right = value & half_mask;
        for (uint64_t round = 0; round < 6; ++round) {
            const uint64_t next = left ^ (mix(seed_, round, right) & half_mask);
            left = right;
            right = next;
        }
        value = (left << half_bits_) | right;
    } while (value >= size_);
    return value;
}

}  // namespace accrue
