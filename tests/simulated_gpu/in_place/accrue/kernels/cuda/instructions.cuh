#pragma once

// In the place of kernels/cuda/instructions.cuh on the simulated GPU: the same functions in plain C++.
#include <cmath>
#include <limits>

#include "accrue/kernels/cuda/device.cuh"
#include "tests/simulated_gpu/threads.h"

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
float half_of(uint32_t word, int half) {
    T pair[2];
    std::memcpy(pair, &word, sizeof(pair));
    return to_float(pair[half]);
}

// The sum of 16 products, and the c they are added to, without an error, then rounded once: tensor cores do about that.
template <class T>
inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    WarpProduct mine{.c = c, .a = a, .b0 = b0, .b1 = b1};
    simulated::with_warp("mma", &mine, [](simulated::Lanes lanes) {
        float left[16][16];
        float right[16][8];
        for (int lane = 0; lane < 32; ++lane) {
            const auto& piece = *static_cast<const WarpProduct*>(lanes[lane]);
            const int g = lane / 4;
            const int t = lane % 4;
            for (int half = 0; half < 2; ++half) {
                left[g][2 * t + half] = half_of<T>(piece.a[0], half);
                left[g + 8][2 * t + half] = half_of<T>(piece.a[1], half);
                left[g][2 * t + 8 + half] = half_of<T>(piece.a[2], half);
                left[g + 8][2 * t + 8 + half] = half_of<T>(piece.a[3], half);
                right[2 * t + half][g] = half_of<T>(piece.b0, half);
                right[2 * t + 8 + half][g] = half_of<T>(piece.b1, half);
            }
        }
        for (int lane = 0; lane < 32; ++lane) {
            const auto& piece = *static_cast<const WarpProduct*>(lanes[lane]);
            for (int i = 0; i < 4; ++i) {
                const int row = lane / 4 + i / 2 * 8;
                const int column = lane % 4 * 2 + i % 2;
                double sum = piece.c[i];
                for (int k = 0; k < 16; ++k) {
                    sum += static_cast<double>(left[row][k]) * static_cast<double>(right[k][column]);
                }
                piece.c[i] = static_cast<float>(sum);
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
