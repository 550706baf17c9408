#pragma once

#include <cstdint>
#include <span>

namespace accrue {

// A checksum of integers that adds up as they do: the sum of values[i] * factor(seed, first + i) modulo 2^64, where each factor
// is odd and looks random. Those of pieces add up to that of the whole, and those of contributions to that of their sum.
//
// One changed element always shows. Several do not with a probability of 2^(k - 63), where 2^k divides all the changes: never
// in practice, except where only the highest bits changed. An even number of changed bits 63 never shows.
[[nodiscard]] uint64_t linear_check(std::span<const int64_t> values, int64_t first, uint64_t seed);

}  // namespace accrue
