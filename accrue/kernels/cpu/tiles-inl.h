// Products of packed panels with AMX, for inclusion behind product-inl.h.
//
// An element is a chain as in product-inl.h, of another kind of link: a tile instruction adds the sum of 32 products at a
// time; the words behind the last whole 16 are added by the bf16 dot product. Which links there are depends on the depth
// alone, so bits do not depend on tiles, threads or neighbours here either.
#if defined(ACCRUE_KERNELS_CPU_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_TILES_INL_H_
#undef ACCRUE_KERNELS_CPU_TILES_INL_H_
#else
#define ACCRUE_KERNELS_CPU_TILES_INL_H_
#endif

#include "accrue/kernels/cpu/product-inl.h"
#include "accrue/kernels/cpu/tile_shapes.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

inline constexpr int64_t kAmxRows = 32;   // two tiles of sums below each other, three side by side
inline constexpr int64_t kAmxWords = 16;  // of the depth, in one instruction

#if HWY_TARGET == HWY_AVX3
#define ACCRUE_AMX __attribute__((noinline, target(HWY_TARGET_STR ",avx512bf16,amx-tile,amx-bf16")))

// Sets this thread's tiles up, and gives them back.
ACCRUE_AMX inline void start_tiles() {
    _tile_loadconfig(&kTileShapes);
}
ACCRUE_AMX inline void end_tiles() {
    _tile_release();
}

// tile[kAmxRows, vectors] (+)= rows * right panel over `blocks` x 16 words. Sums in tiles 0 to 5, a factor in 6 and 7.
template <int vectors>
ACCRUE_AMX void multiply_tiles(const uint32_t* left, int64_t stride, const uint32_t* right, int64_t blocks, Chain chain,
                               float* tile) {
    constexpr int64_t kTileStride = kTileColumns * 4;
    constexpr int64_t kRightStride = vectors * kLanes * 4;
    float* lower = tile + 16 * kTileColumns;
    asm volatile("" ::: "memory");  // gcc 12 does not know that loading a tile reads memory
    if (chain == Chain::start) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        _tile_zero(4);
        _tile_zero(5);
    } else {
        _tile_loadd(0, tile, kTileStride);
        _tile_loadd(3, lower, kTileStride);
        if constexpr (vectors > 1) {
            _tile_loadd(1, tile + kLanes, kTileStride);
            _tile_loadd(4, lower + kLanes, kTileStride);
        }
        if constexpr (vectors > 2) {
            _tile_loadd(2, tile + 2 * kLanes, kTileStride);
            _tile_loadd(5, lower + 2 * kLanes, kTileStride);
        }
    }
    for (int64_t block = 0; block < blocks; ++block) {
        _tile_loadd(6, left, stride * 4);
        _tile_loadd(7, right, kRightStride);
        _tile_dpbf16ps(0, 6, 7);
        if constexpr (vectors > 1) {
            _tile_loadd(7, right + kLanes, kRightStride);
            _tile_dpbf16ps(1, 6, 7);
        }
        if constexpr (vectors > 2) {
            _tile_loadd(7, right + 2 * kLanes, kRightStride);
            _tile_dpbf16ps(2, 6, 7);
        }
        _tile_loadd(6, left + 16 * stride, stride * 4);
        if constexpr (vectors > 2) {
            _tile_dpbf16ps(5, 6, 7);
            _tile_loadd(7, right + kLanes, kRightStride);
        }
        if constexpr (vectors > 1) {
            _tile_dpbf16ps(4, 6, 7);
            _tile_loadd(7, right, kRightStride);
        }
        _tile_dpbf16ps(3, 6, 7);
        left += kAmxWords;
        right += kAmxWords * vectors * kLanes;
    }
    _tile_stored(0, tile, kTileStride);
    _tile_stored(3, lower, kTileStride);
    if constexpr (vectors > 1) {
        _tile_stored(1, tile + kLanes, kTileStride);
        _tile_stored(4, lower + kLanes, kTileStride);
    }
    if constexpr (vectors > 2) {
        _tile_stored(2, tile + 2 * kLanes, kTileStride);
        _tile_stored(5, lower + 2 * kLanes, kTileStride);
    }
}

#else

// Never called: tiles exist only with amx.
inline void start_tiles() {}
inline void end_tiles() {}
template <int vectors>
void multiply_tiles(const uint32_t*, int64_t, const uint32_t*, int64_t, Chain, float*) {}

#endif

inline void multiply_tiles(const uint32_t* left, int64_t stride, const uint32_t* right, int64_t width, int64_t blocks,
                           Chain chain, float* tile) {
    switch (width / kLanes) {
        case 1:
            return multiply_tiles<1>(left, stride, right, blocks, chain, tile);
        case 2:
            return multiply_tiles<2>(left, stride, right, blocks, chain, tile);
        default:
            return multiply_tiles<3>(left, stride, right, blocks, chain, tile);
    }
}

// The first kAmxRows rows of `left` times one right panel into a tile of kAmxRows rows, kTileColumns apart. Where there
// are fewer rows they are copied first, a block at a time, because a tile reads all of its own.
inline void multiply_amx_tile(const LeftRows& left, const uint32_t* right, int64_t width, int64_t words, Chain chain,
                              float* tile) {
    const int64_t blocks = words / kAmxWords;
    const int64_t whole = blocks * kAmxWords;
    if (left.count >= kAmxRows) {
        multiply_tiles(left.first, left.stride, right, width, blocks, chain, tile);
    } else {
        HWY_ALIGN uint32_t rows[kAmxRows * kAmxWords] = {};
        for (int64_t block = 0; block < blocks; ++block) {
            for (int64_t row = 0; row < left.count; ++row) {
                std::copy_n(left.row(row) + block * kAmxWords, kAmxWords, rows + row * kAmxWords);
            }
            multiply_tiles(rows, kAmxWords, right + block * kAmxWords * width, width, 1,
                           block == 0 ? chain : Chain::go_on, tile);
        }
    }
    if (whole == words && words > 0) {
        return;
    }
    for (int64_t row = 0; row < std::min(kAmxRows, left.count); row += kTileRows) {
        multiply_tile(left.from(row, whole), right + whole * width, width, words - whole, Packing::pairs,
                      whole == 0 ? chain : Chain::go_on, tile + row * kTileColumns);
    }
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
