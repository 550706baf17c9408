#pragma once

// Included before each of the kernels' sources when they are compiled for the processor: CUDA's own headers, as a program
// without device code sees them, and what only device code has beside.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/simulated_gpu/threads.h"
#include <cuda_runtime.h>

// One block runs at a time, so that its shared memory may be everybody's.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)

// Of the thread that runs (threads.cpp).
extern "C" {
extern accrue::simulated::Extent threadIdx;
extern accrue::simulated::Extent blockIdx;
extern accrue::simulated::Extent blockDim;
extern accrue::simulated::Extent gridDim;
}

inline void __syncthreads() {
    accrue::simulated::wait_for_block();
}

namespace accrue::simulated {

// Each lane brings a value and a lane to hear from.
template <class T>
struct Shuffle {
    T value;
    uint32_t from;
    T heard;
};

template <class T>
T shuffled(const char* instruction, T value, uint32_t from) {
    Shuffle<T> mine{.value = value, .from = from % 32, .heard = value};
    with_warp(instruction, &mine, [](Lanes lanes) {
        for (void* const lane : lanes) {
            auto& shuffle = *static_cast<Shuffle<T>*>(lane);
            shuffle.heard = static_cast<Shuffle<T>*>(lanes[shuffle.from])->value;
        }
    });
    return mine.heard;
}

inline void require_all_lanes(uint32_t mask) {
    if (mask != 0xffffffffU) {
        fail("only whole warps are simulated");
    }
}

struct Vote {
    uint32_t mine;
    uint32_t result;
};
// What `join` makes of all lanes' values.
template <class Join>
uint32_t voted(const char* instruction, uint32_t value, uint32_t first, Join /*join*/) {
    struct Ballot : Vote {
        uint32_t first;
    };
    Ballot mine;
    mine.mine = value;
    mine.first = first;
    with_warp(instruction, &mine, [](Lanes lanes) {
        uint32_t result = static_cast<Ballot*>(lanes[0])->first;
        for (uint32_t i = 0; i < 32; ++i) {
            result = Join()(result, static_cast<Ballot*>(lanes[i])->mine, i);
        }
        for (void* const lane : lanes) {
            static_cast<Ballot*>(lane)->result = result;
        }
    });
    return mine.result;
}

}  // namespace accrue::simulated

template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int distance) {
    accrue::simulated::require_all_lanes(mask);
    return accrue::simulated::shuffled("__shfl_xor_sync", value,
                                       accrue::simulated::lane() ^ static_cast<uint32_t>(distance));
}
template <class T>
T __shfl_sync(uint32_t mask, T value, int from) {
    accrue::simulated::require_all_lanes(mask);
    return accrue::simulated::shuffled("__shfl_sync", value, static_cast<uint32_t>(from));
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, uint32_t distance) {
    accrue::simulated::require_all_lanes(mask);
    const uint32_t from = accrue::simulated::lane() + distance;
    return accrue::simulated::shuffled("__shfl_down_sync", value, from < 32 ? from : accrue::simulated::lane());
}
inline void __syncwarp(uint32_t mask = 0xffffffffU) {
    accrue::simulated::require_all_lanes(mask);
    (void)accrue::simulated::shuffled("__syncwarp", 0, 0);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
    accrue::simulated::require_all_lanes(mask);
    return accrue::simulated::voted("__ballot_sync", predicate != 0 ? 1 : 0, 0,
                                    [](uint32_t all, uint32_t one, uint32_t i) { return all | one << i; });
}
inline int __any_sync(uint32_t mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0 ? 1 : 0;
}
inline int __all_sync(uint32_t mask, int predicate) {
    return __ballot_sync(mask, predicate) == 0xffffffffU ? 1 : 0;
}
inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t value) {
    accrue::simulated::require_all_lanes(mask);
    return accrue::simulated::voted("__reduce_max_sync", value, 0,
                                    [](uint32_t all, uint32_t one, uint32_t) { return all < one ? one : all; });
}

template <class To, class From>
To accrue_same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}
inline uint32_t __float_as_uint(float x) {
    return accrue_same_bits<uint32_t>(x);
}
inline float __uint_as_float(uint32_t x) {
    return accrue_same_bits<float>(x);
}
inline int __float_as_int(float x) {
    return accrue_same_bits<int>(x);
}
inline float __int_as_float(int x) {
    return accrue_same_bits<float>(x);
}
inline float __fdiv_rn(float x, float y) {
    return x / y;
}
inline float __fsqrt_rn(float x) {
    return __builtin_sqrtf(x);
}
inline float __fmul_rn(float x, float y) {
    return x * y;
}
inline float __fadd_rn(float x, float y) {
    return x + y;
}
inline float __double2float_rn(double x) {
    return static_cast<float>(x);
}
inline double __ll2double_rn(long long x) {
    return static_cast<double>(x);
}
// Beyond the range the nearest in it; the processor has no such rule.
inline long long __double2ll_rn(double x) {
    if (x != x) {
        return INT64_MIN;
    }
    if (x >= 0x1p63) {
        return INT64_MAX;
    }
    return x < -0x1p63 ? INT64_MIN : static_cast<long long>(__builtin_nearbyint(x));
}
inline int __clz(int x) {
    return x == 0 ? 32 : __builtin_clz(static_cast<uint32_t>(x));
}
template <class T>
T __ldcs(const T* place) {
    return *place;
}
template <class T>
T __ldg(const T* place) {
    return *place;
}
template <class T>
void __stcs(T* place, T value) {
    *place = value;
}
template <class T>
T atomicAdd(T* place, std::type_identity_t<T> value) {
    const T before = *place;
    *place = before + value;
    return before;
}
template <class T>
T atomicMax(T* place, std::type_identity_t<T> value) {
    const T before = *place;
    *place = before < value ? value : before;
    return before;
}
template <class A, class B>
constexpr auto min(A a, B b) {
    return b < a ? static_cast<decltype(a + b)>(b) : static_cast<decltype(a + b)>(a);
}
template <class A, class B>
constexpr auto max(A a, B b) {
    return a < b ? static_cast<decltype(a + b)>(b) : static_cast<decltype(a + b)>(a);
}
