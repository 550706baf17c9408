#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "accrue/base/random.h"
#include "accrue/kernels/operation/basics.h"

// What kernels have in common. Compiled with -fmad=false: a fused multiply-add only where fmaf or fma is written.
namespace accrue::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

template <class T>
struct TypeTag {
    using type = T;
};

// Calls with the device's type for that dtype: with_type(dtype, [&](auto tag) { using T = typename decltype(tag)::type; ... }).
template <class Call>
void with_type(DType dtype, const Call& call) {
    switch (dtype) {
        case DType::bf16:
            call(TypeTag<bf16>());
            break;
        case DType::fp16:
            call(TypeTag<fp16>());
            break;
        default:
            call(TypeTag<float>());
    }
}

__device__ inline float to_float(float x) {
    return x;
}
__device__ inline float to_float(bf16 x) {
    return __bfloat162float(x);
}
__device__ inline float to_float(fp16 x) {
    return __half2float(x);
}

// Rounded once, to nearest, ties to even; an fp16 beyond the largest becomes infinity.
template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
    return x;
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
    return __float2bfloat16_rn(x);
}
template <>
__device__ inline fp16 from_float<fp16>(float x) {
    return __float2half_rn(x);
}

// Two narrow elements, rounded, as one word.
template <class T>
__device__ inline uint32_t packed_pair(float low, float high) {
    uint32_t word = 0;
    if constexpr (std::is_same_v<T, bf16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        memcpy(&word, &pair, sizeof(word));
    } else {
        const __half2 pair = __floats2half2_rn(low, high);
        memcpy(&word, &pair, sizeof(word));
    }
    return word;
}

// All lanes get the sum, in a fixed order.
template <class T>
__device__ inline T warp_sum(T value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffffU, value, distance);
    }
    return value;
}
template <class T>
__device__ inline T warp_max(T value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        const T other = __shfl_xor_sync(0xffffffffU, value, distance);
        value = value < other ? other : value;
    }
    return value;
}

// A Dropout as a kernel's argument; basics.h says which elements it keeps.
struct DropoutArgs {
    const uint64_t* rows = nullptr;  // nothing: nothing is dropped
    uint64_t site = 0;
    uint64_t threshold = 0;
    double scale = 1;

    __device__ uint64_t row_key(int64_t row) const { return mix(site, rows[row]); }
    // 0 or scale.
    __device__ float factor(uint64_t row_key, uint64_t column) const {
        return (mix(row_key + column * 0x9e3779b97f4a7c15ULL) >> 32) < threshold ? 0.0F : static_cast<float>(scale);
    }
};

[[nodiscard]] inline DropoutArgs args_of(const Dropout& dropout) {
    if (dropout.probability == 0) {
        return {};
    }
    const double probability = dropout.probability;
    return {.rows = dropout.rows.data,
            .site = dropout.site,
            .threshold = static_cast<uint64_t>(std::ceil(probability * 0x1p32)),
            .scale = 1 / (1 - probability)};
}

}  // namespace accrue::cuda
