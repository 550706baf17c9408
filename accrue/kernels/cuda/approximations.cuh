#pragma once

#include <cuda_runtime.h>

// What the hardware computes in one step: to about 2 units in the last place of a float, results below the smallest normal
// number are 0, and the same input has the same bits on every GPU of an architecture. NaN and infinity behave as in
// arithmetic.
namespace accrue::cuda {

// 2^x.
__device__ inline float power_of_two(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// 1 / x.
__device__ inline float reciprocal(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

}  // namespace accrue::cuda
