#pragma once

#include <limits>
#include <span>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/device.cuh"
#include "accrue/kernels/cuda/pending_records.h"

// What adding one value of a grain's gradient to a sum and to the grain's record means, to the bit: reference/element.h and
// bf16_sum.h, for the device.
namespace accrue::cuda {

// What it depends on, beside the sum.
struct GrainRule {
    double per_unit = 1;
    uint64_t rounding_key = 0;
    float unscale = 1;
    float too_large = 0;  // exact: from this |value| on the units do not fit into 64 bits
};

[[nodiscard]] inline GrainRule rule_of(const SumView& sum) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const double too_large = 0x1p63 / sum.per_unit;  // a power of two
    return {.per_unit = sum.per_unit,
            .rounding_key = sum.rounding_key,
            .unscale = sum.unscale,
            .too_large = too_large > std::numeric_limits<float>::max() ? kInfinity : static_cast<float>(too_large)};
}

// The kinds of sums: how an element lies in memory (`Element`), and what it is after a value was added. The value is finite.
struct ExactSum {
    using Element = uint64_t;  // unsigned, so that it wraps

    // What does not fit adds 0: the record's `largest` tells that the window must be replayed with a larger unit.
    static __device__ uint64_t units(float x, const GrainRule& rule) {
        const auto units = static_cast<uint64_t>(__double2ll_rn(static_cast<double>(x) * rule.per_unit));
        return fabsf(x) < rule.too_large ? units : 0;
    }
    static __device__ uint64_t added(uint64_t sum, float x, const GrainRule& rule, int64_t /*place*/) {
        return sum + units(x, rule);
    }
};

struct Fp32Sum {
    using Element = float;

    static __device__ float added(float sum, float x, const GrainRule& /*rule*/, int64_t /*place*/) { return sum + x; }
};

// A Bf16 as its bits, and back.
__device__ inline float float_of_bf16_bits(uint32_t bits) {
    return __uint_as_float(bits << 16);
}
__device__ inline uint32_t bf16_bits_of(float x) {
    const uint32_t word = __float_as_uint(x);
    return (word & 0x7fffffffU) > 0x7f800000U ? (word >> 16) | 0x40U : (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
}

struct NearestSum {
    using Element = uint16_t;

    static __device__ uint16_t added(uint16_t sum, float x, const GrainRule& /*rule*/, int64_t /*place*/) {
        return static_cast<uint16_t>(bf16_bits_of(float_of_bf16_bits(sum) + x));
    }
};

struct StochasticSum {
    using Element = uint16_t;

    static __device__ uint16_t added(uint16_t sum, float x, const GrainRule& rule, int64_t place) {
        const uint32_t random = random_bits(rule.rounding_key, static_cast<uint64_t>(place)) >> 16;
        return static_cast<uint16_t>((__float_as_uint(float_of_bf16_bits(sum) + x) + random) >> 16);
    }
};

struct KahanSum {
    using Element = uint32_t;  // a KahanBf16: the sum below, what it has lost above

    static __device__ uint32_t added(uint32_t pair, float x, const GrainRule& /*rule*/, int64_t /*place*/) {
        const float before = float_of_bf16_bits(pair);
        const float wanted = x + __uint_as_float(pair & 0xffff0000U);
        const uint32_t after = bf16_bits_of(before + wanted);
        const uint32_t lost = bf16_bits_of((before - float_of_bf16_bits(after)) + wanted);
        return x == 0 ? pair : after | (lost << 16);
    }
};

// Calls with the kind as a type: call(TypeTag<ExactSum>()).
template <class Call>
void with_sum(SumKind kind, const Call& call) {
    switch (kind) {
        case SumKind::exact:
            return call(TypeTag<ExactSum>());
        case SumKind::fp32:
            return call(TypeTag<Fp32Sum>());
        case SumKind::bf16:
            return call(TypeTag<NearestSum>());
        case SumKind::bf16_stochastic:
            return call(TypeTag<StochasticSum>());
        case SumKind::bf16_kahan:
            return call(TypeTag<KahanSum>());
    }
}

// Notes a value, and returns what is to be added: without its loss scale, 0 where it is not finite.
__device__ inline float noted(float value, float unscale, TileStatistics& statistics) {
    const float x = value * unscale;
    const uint32_t size = __float_as_uint(x) & 0x7fffffffU;
    const bool is_finite = size < 0x7f800000U;
    const float finite = is_finite ? x : 0.0F;
    const double wide = finite;
    statistics.squares = fma(wide, wide, statistics.squares);  // a float's square is exact in double
    statistics.largest = max(statistics.largest, is_finite ? size : 0U);
    statistics.not_finite |= is_finite ? 0U : 1U;
    return finite;
}

__device__ inline void join(TileStatistics& statistics, const TileStatistics& next) {
    statistics.squares += next.squares;
    statistics.largest = max(statistics.largest, next.largest);
    statistics.not_finite |= next.not_finite;
}

// All lanes get what the warp has noted.
__device__ inline TileStatistics warp_statistics(const TileStatistics& statistics) {
    return {.squares = warp_sum(statistics.squares),
            .largest = __reduce_max_sync(0xffffffffU, statistics.largest),
            .not_finite = __any_sync(0xffffffffU, static_cast<int>(statistics.not_finite)) != 0 ? 1U : 0U};
}

// Thread 0 gets what the block has noted, warps in their order. All threads of the block call it, once; whole warps.
__device__ inline TileStatistics block_statistics(const TileStatistics& statistics) {
    __shared__ TileStatistics warps[32];
    const TileStatistics warp = warp_statistics(statistics);
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = warp;
    }
    __syncthreads();
    TileStatistics all = warps[0];
    for (uint32_t w = 1; threadIdx.x == 0 && w < blockDim.x / 32; ++w) {
        join(all, warps[w]);
    }
    return all;
}

}  // namespace accrue::cuda
