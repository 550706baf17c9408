#pragma once

// In the place of kernels/cuda/instructions.cuh on the simulated GPU: the same functions in plain C++.
#include <cmath>
#include <limits>

#include "tests/simulated_gpu/threads.h"
#include "tests/simulated_gpu/warp_product.h"

#include "accrue/kernels/cuda/device.cuh"

namespace accrue::cuda {

inline std::byte* dynamic_shared() {
    return simulated::shared_memory();
}

inline void require_aligned(const void* place, uintptr_t bytes) {
    if (reinterpret_cast<uintptr_t>(place) % bytes != 0) {
        simulated::fail("a copy to shared memory is not aligned");
    }
}

inline void copy_16_bytes(void* to, const void* from, int bytes = 16) {
    require_aligned(to, 16);
    require_aligned(bytes > 0 ? from : nullptr, 16);
    simulated::copy_beside(to, from, bytes, 16);
}
inline void copy_4_bytes(void* to, const void* from, bool exists) {
    require_aligned(to, 4);
    require_aligned(exists ? from : nullptr, 4);
    simulated::copy_beside(to, from, exists ? 4 : 0, 4);
}
inline void close_copies() {
    simulated::close_copies();
}
template <int kOpen>
inline void wait_for_copies() {
    simulated::wait_for_copies(kOpen);
}

// What a lane has of a product of a warp.
struct WarpProduct {
    float* c;
    const uint32_t* a;
    uint32_t b0;
    uint32_t b1;
};

template <class T>
void unpack(uint32_t word, float& low, float& high) {
    T pair[2];
    std::memcpy(static_cast<void*>(pair), &word, sizeof(pair));
    low = to_float(pair[0]);
    high = to_float(pair[1]);
}

template <class T>
inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    WarpProduct mine{.c = c, .a = a, .b0 = b0, .b1 = b1};
    simulated::with_warp("mma", &mine, [](simulated::Lanes lanes) {
        simulated::WarpMatrices matrices;
        for (int lane = 0; lane < 32; ++lane) {
            const auto& piece = *static_cast<const WarpProduct*>(lanes[lane]);
            const int g = lane / 4;
            const int t = lane % 4;
            for (int i = 0; i < 4; ++i) {
                float* const left = matrices.left[g + i % 2 * 8] + 2 * t + i / 2 * 8;
                unpack<T>(piece.a[i], left[0], left[1]);
                matrices.sums[g + i / 2 * 8][2 * t + i % 2] = piece.c[i];
            }
            unpack<T>(piece.b0, matrices.right[2 * t][g], matrices.right[2 * t + 1][g]);
            unpack<T>(piece.b1, matrices.right[2 * t + 8][g], matrices.right[2 * t + 9][g]);
        }
        simulated::multiply_add(matrices);
        for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < 4; ++i) {
                static_cast<const WarpProduct*>(lanes[lane])->c[i] =
                    matrices.sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
            }
        }
    });
}

struct WarpLoad {
    uint32_t* words;
    const void* row;
};
template <bool kTransposed>
inline void load_four_matrices(uint32_t (&words)[4], const void* row) {
    require_aligned(row, 16);
    WarpLoad mine{.words = words, .row = row};
    simulated::with_warp(kTransposed ? "ldmatrix.trans" : "ldmatrix", &mine, [](simulated::Lanes lanes) {
        uint16_t matrices[4][8][8];
        for (int lane = 0; lane < 32; ++lane) {
            std::memcpy(matrices[lane / 8][lane % 8], static_cast<const WarpLoad*>(lanes[lane])->row, 16);
        }
        for (int lane = 0; lane < 32; ++lane) {
            const int g = lane / 4;
            const int t = lane % 4;
            for (int i = 0; i < 4; ++i) {
                const uint32_t low = kTransposed ? matrices[i][2 * t][g] : matrices[i][g][2 * t];
                const uint32_t high = kTransposed ? matrices[i][2 * t + 1][g] : matrices[i][g][2 * t + 1];
                static_cast<const WarpLoad*>(lanes[lane])->words[i] = low | high << 16;
            }
        }
    });
}
inline void load_matrices(uint32_t (&words)[4], const void* row) {
    load_four_matrices<false>(words, row);
}
inline void load_transposed(uint32_t (&words)[4], const void* row) {
    load_four_matrices<true>(words, row);
}

inline float without_small(float x) {
    return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}
inline float power_of_two(float x) {
    return without_small(std::exp2(without_small(x)));
}
inline float reciprocal(float x) {
    return without_small(1.0F / without_small(x));
}

}  // namespace accrue::cuda
