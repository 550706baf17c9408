#include "accrue/kernels/timed/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include <immintrin.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/kernels/cpu/tile_shapes.h"
#include "accrue/tensor/arena.h"

namespace accrue {
namespace {

constexpr auto kBurst = std::chrono::milliseconds(20);

// Enough independent chains to hide the latency of a multiply-add, few enough for the registers there are.
constexpr int kWideChains = 24;    // of 32 registers
constexpr int kNarrowChains = 12;  // of 16

// Each function computes `rounds` multiply-adds on every chain and returns something that depends on all of them.

float run_sse(int64_t rounds) {
    __m128 sums[kNarrowChains];
    std::fill(sums, sums + kNarrowChains, _mm_set1_ps(1));
    const __m128 half = _mm_set1_ps(0.5F);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
        for (__m128& sum : sums) {
            sum = _mm_add_ps(_mm_mul_ps(sum, half), half);
        }
    }
    __m128 total = sums[0];
    for (const __m128& sum : sums) {
        total = _mm_add_ps(total, sum);
    }
    return _mm_cvtss_f32(total);
}

__attribute__((target("avx2,fma"))) float run_avx2(int64_t rounds) {
    __m256 sums[kNarrowChains];
    std::fill(sums, sums + kNarrowChains, _mm256_set1_ps(1));
    const __m256 half = _mm256_set1_ps(0.5F);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
        for (__m256& sum : sums) {
            sum = _mm256_fmadd_ps(sum, half, half);
        }
    }
    __m256 total = sums[0];
    for (const __m256& sum : sums) {
        total = _mm256_add_ps(total, sum);
    }
    return _mm256_cvtss_f32(total);
}

__attribute__((target("avx512f"))) float run_avx512(int64_t rounds) {
    __m512 sums[kWideChains];
    std::fill(sums, sums + kWideChains, _mm512_set1_ps(1));
    const __m512 half = _mm512_set1_ps(0.5F);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
        for (__m512& sum : sums) {
            sum = _mm512_fmadd_ps(sum, half, half);
        }
    }
    __m512 total = sums[0];
    for (const __m512& sum : sums) {
        total = _mm512_add_ps(total, sum);
    }
    return _mm512_cvtss_f32(total);
}

__attribute__((target("avx512f,avx512bf16"))) float run_avx512_bf16(int64_t rounds) {
    __m512 sums[kWideChains];
    std::fill(sums, sums + kWideChains, _mm512_set1_ps(1));
    const auto ones = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
        for (__m512& sum : sums) {
            sum = _mm512_dpbf16_ps(sum, ones, ones);
        }
    }
    __m512 total = sums[0];
    for (const __m512& sum : sums) {
        total = _mm512_add_ps(total, sum);
    }
    return _mm512_cvtss_f32(total);
}

// Six tiles of sums, as products have them: each instruction multiplies 16 x 32 by 32 x 16.
constexpr int kTileSums = 6;

__attribute__((target("amx-tile,amx-bf16"))) float run_amx(int64_t rounds) {
    _tile_loadconfig(&cpu::kTileShapes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t i = 0; i < rounds; ++i) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    alignas(64) float sums[16 * 16];
    _tile_stored(0, sums, 64);
    _tile_release();
    return sums[0];
}

struct MultiplyAdd {
    float (*run)(int64_t rounds);
    int64_t operations_a_round;
};

// What products use: without instructions for bf16 they widen to fp32. A new instruction set gets its line here.
MultiplyAdd multiply_add_of(DType dtype, cpu::InstructionSet set) {
    switch (set) {
        case cpu::InstructionSet::portable:
            return {run_sse, int64_t{kNarrowChains} * 4 * 2};
        case cpu::InstructionSet::avx2:
            return {run_avx2, int64_t{kNarrowChains} * 8 * 2};
        case cpu::InstructionSet::avx512:
            return {run_avx512, int64_t{kWideChains} * 16 * 2};
        case cpu::InstructionSet::avx512_bf16:
            return dtype == DType::bf16 ? MultiplyAdd{run_avx512_bf16, int64_t{kWideChains} * 16 * 4}
                                        : MultiplyAdd{run_avx512, int64_t{kWideChains} * 16 * 2};
        case cpu::InstructionSet::amx:
            return dtype == DType::bf16 ? MultiplyAdd{run_amx, int64_t{kTileSums} * 16 * 16 * 32 * 2}
                                        : MultiplyAdd{run_avx512, int64_t{kWideChains} * 16 * 2};
    }
    throw Error("the multiply-add rate of this instruction set cannot be measured yet.");
}

// a[i] = b[i] + s * c[i] for some elements, a multiple of 4.
void triad(float* a, const float* b, const float* c, int64_t elements) {
    const __m128 s = _mm_set1_ps(0.5F);
    for (int64_t i = 0; i < elements; i += 4) {
        _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(s, _mm_load_ps(c + i))));
    }
    _mm_sfence();
}

}  // namespace

double multiply_add_rate(Pool& pool, DType dtype, cpu::InstructionSet set) {
    const MultiplyAdd multiply_add = multiply_add_of(dtype, set);
    constexpr int64_t kRounds = 10'000;  // between two looks at the clock
    std::atomic<int64_t> rounds{0};
    std::atomic<float> keep{0};  // so that nothing can be left out
    const auto start = Clock::now();
    pool.run(pool.threads(), [&](int64_t, int) {
        do {  // once at least, should others have had the processor until now
            keep = multiply_add.run(kRounds);
            rounds += kRounds;
        } while (Clock::now() < start + kBurst);
    });
    return static_cast<double>(rounds * multiply_add.operations_a_round) / seconds_since(start);
}

double memory_bandwidth(Pool& pool) {
    constexpr int64_t kElements = int64_t{64} << 20;  // 256 MiB an array, several times the largest caches
    constexpr int64_t kPiece = int64_t{1} << 20;
    constexpr int kRounds = 6;
    Arena arena(3 * kElements * static_cast<int64_t>(sizeof(float)));
    const auto memory = take_matrix<float>(arena, 3, kElements);
    float* const a = memory.view.data;
    // Pages that nobody wrote would all be one page of zeros, which a cache holds.
    pool.run(3 * kElements / kPiece,
             [&](int64_t piece, int) { std::fill(a + piece * kPiece, a + (piece + 1) * kPiece, 1.0F); });
    double best = 1e9;
    for (int round = 0; round < kRounds; ++round) {
        const auto start = Clock::now();
        pool.run(kElements / kPiece, [&](int64_t piece, int) {
            float* const here = a + piece * kPiece;
            triad(here, here + kElements, here + 2 * kElements, kPiece);
        });
        best = std::min(best, seconds_since(start));
    }
    return static_cast<double>(3 * kElements * static_cast<int64_t>(sizeof(float))) / best;
}

}  // namespace accrue
