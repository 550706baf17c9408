#pragma once

#include <cstddef>
#include <cstdint>

#include "accrue/kernels/cuda/device.cuh"

// The instructions of sm_80 and newer that C++ has no name for, one function each: all assembly of the kernels stands here. The
// simulated GPU of the tests has a file in the place of this one (tests/simulated_gpu).
namespace accrue::cuda {

// The shared memory that a launch asks for (Shape::shared_bytes).
__device__ inline std::byte* dynamic_shared() {
    extern __shared__ __align__(16) std::byte memory[];
    return memory;
}

__device__ inline uint32_t shared_address(const void* place) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

// Copies from device memory to shared memory run beside the thread that asked for them, and are there for it once it has
// waited. The first `bytes` of 16 are copied, the others are zeroes; both places are aligned, and where nothing is copied,
// `from` is not read.
__device__ inline void copy_16_bytes(void* to, const void* from, int bytes = 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}
__device__ inline void copy_4_bytes(void* to, const void* from, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(exists ? 4 : 0)
                 : "memory");
}

// Copies up to here are one group; waits until all groups but the last few have arrived.
__device__ inline void close_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kOpen>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

// m16n8k16 multiplies pieces that a warp holds together. With g = lane / 4 and t = lane % 4, a lane has
//   of a (16 x 16): places (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with its right neighbour, in a word
//   of b (16 x 8):  places (2t, g), (2t + 8, g), each with the one below it, in a word
//   of c (16 x 8):  places (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
// so that two neighbouring pieces c, rounded, are a piece a. c += a * b:
template <class T>
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (std::is_same_v<T, bf16>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// Four 8 x 8 matrices of 2-byte elements from shared memory. Lanes 8i to 8i + 7 name the eight rows of matrix i; word i of a
// lane is then (g, 2t) and (g, 2t + 1) of matrix i.
__device__ inline void load_matrices(uint32_t (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}
// The same, each matrix turned over: word i is (2t, g) and (2t + 1, g).
__device__ inline void load_transposed(uint32_t (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// What the hardware computes in one step: to about 2 units in the last place of a float, results below the smallest normal
// number are 0, and the same input has the same bits on every GPU of an architecture. NaN and infinity behave as in
// arithmetic. 2^x:
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
