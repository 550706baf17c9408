// Products of packed panels, for inclusion in each target's pass over a source file.
//
// Every element of a result is ONE chain of fp32 additions in the order of the depth, started from zero: fused
// multiply-adds, or for pairs the bf16 dot product (which adds two products at a time and treats denormals as zero). So
// the bits of an element depend on its own lane of either side and on nothing else: not on tiles, threads, or how the
// depth was sliced. (The portable set has no fused multiply-add: there each product is rounded before it is added.)
//
// Why not oneDNN: on tiles of fixed shape, which its bits depend on, it is slower by 4% at the median of 48 products of
// eight shapes, in turns with these (bench/results/products.json; accrue_bench_products measures it again).
#if defined(ACCRUE_KERNELS_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_PRODUCT_INL_H_
#undef ACCRUE_KERNELS_CPU_PRODUCT_INL_H_
#else
#define ACCRUE_KERNELS_CPU_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>
#if HWY_TARGET == HWY_AVX3
#include <immintrin.h>
#endif

#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/pack-inl.h"
#include "accrue/kernels/cpu/packing.h"
#include "accrue/tensor/view.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// A tile of the result is what the registers hold: 8 x 48 of 32 registers with AVX-512, 4 x 24 of 16 with AVX2.
inline constexpr int64_t kTileRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;
inline constexpr int64_t kTileVectors = 3;
inline constexpr int64_t kTileColumns = kTileVectors * kLanes;
inline constexpr int64_t kTileElements = kTileRows * kTileColumns;

// The lanes of the panel that starts at `column`: the last one is only as wide as whole vectors need.
[[nodiscard]] inline int64_t panel_width(int64_t column, int64_t columns) {
    return std::min(kTileColumns, (columns - column + kLanes - 1) / kLanes * kLanes);
}

// Rows of words on the left of a product: row r begins at first + r * stride.
struct LeftRows {
    const uint32_t* first;
    int64_t stride;
    int64_t count;

    // Where row r of a tile lies; a tile's missing rows read the last one, and nobody looks at their sums.
    [[nodiscard]] HWY_INLINE const uint32_t* row(int64_t r) const { return first + std::min(r, count - 1) * stride; }
    // The same for all rows of a tile, step by step: of the minimum the compiler makes a vector, which would wait until
    // the multiply-adds of the tile before are through.
    HWY_INLINE void locate(const uint32_t* (&rows)[kTileRows]) const {
        rows[0] = first;
#pragma GCC unroll 8
        for (int64_t r = 1; r < kTileRows; ++r) {
            rows[r] = rows[r - 1] + (r < count ? stride : 0);
        }
    }
    // The rows from r on, from their word `word` on.
    [[nodiscard]] HWY_INLINE LeftRows from(int64_t r, int64_t word = 0) const {
        return {first + r * stride + word, stride, count - r};
    }
};

// Whether an operand's own memory is rows of words already, so that it need not be packed.
[[nodiscard]] inline bool lies_in_rows(const Operand& operand, int64_t depth, Packing packing) {
    if (operand.contiguous != Contiguous::depth) {
        return false;
    }
    if (operand.dtype == DType::fp32) {
        return true;
    }
    return packing == Packing::pairs && depth % 2 == 0 && operand.stride % 2 == 0 &&
           reinterpret_cast<uintptr_t>(operand.data) % sizeof(uint32_t) == 0;
}

// The lanes of a block of an operand that lies in rows.
inline LeftRows rows_where_they_lie(const Operand& operand, const OperandBlock& block, Packing packing) {
    const int64_t per_word = packing == Packing::pairs ? 2 : 1;
    const auto* words = static_cast<const uint32_t*>(operand.data);
    return {words + (block.first_lane * operand.stride + block.first_depth) / per_word, operand.stride / per_word,
            block.lanes};
}

// The lanes of a block as rows: where they lie, or packed into `memory`, `stride` words apart.
inline LeftRows rows_of(const Operand& operand, const OperandBlock& block, Packing packing, int64_t stride,
                        uint32_t* memory) {
    if (lies_in_rows(operand, block.depth, packing)) {
        return rows_where_they_lie(operand, block, packing);
    }
    pack_rows(operand, block, {0, words_of(block.depth, packing)}, packing, stride, memory);
    return {memory, stride, block.lanes};
}

// Packs words `range` of the right side's columns into panels of kTileColumns and a narrower last one; `out` is aligned
// to a vector and has room for round_up(lanes, kLanes) * words_of(depth) words. Where lanes are contiguous all panels go
// forward together, so that each depth's values are read in one run.
inline void pack_columns(const Operand& operand, const OperandBlock& block, WordRange range, Packing packing,
                         uint32_t* out) {
    const int64_t step = operand.contiguous == Contiguous::lanes ? 8 : range.end - range.first;
    for (int64_t first = range.first; first < range.end; first += step) {
        for (int64_t column = 0; column < block.lanes; column += kTileColumns) {
            OperandBlock panel = block;
            panel.first_lane += column;
            panel.lanes = std::min(kTileColumns, block.lanes - column);
            pack_panel(operand, panel, {first, std::min(range.end, first + step)}, packing,
                       panel_width(column, block.lanes), out + column * words_of(block.depth, packing));
        }
    }
}

// Rows of memory that will be used soon: row r is `bytes` from first + r * stride on.
struct SoonRows {
    uintptr_t first = 0;
    int64_t stride = 0;
    int64_t bytes = 0;
    int64_t count = 0;

    [[nodiscard]] HWY_INLINE SoonRows from(int64_t r, int64_t rows) const {
        return {first + static_cast<uintptr_t>(r * stride), stride, bytes, rows};
    }

    // Asks for row r. Into the second-level cache: the first one is busy with panels.
    HWY_INLINE void ask_for(int64_t r) const {
        if (r >= count) {
            return;
        }
        constexpr uintptr_t kLine = 64;
        const uintptr_t row = first + static_cast<uintptr_t>(r * stride);
        for (uintptr_t line = row / kLine * kLine; line < row + static_cast<uintptr_t>(bytes); line += kLine) {
            __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
        }
    }

    // Asks for row r and every kTileRows-th after it.
    HWY_INLINE void ask_for_part(int64_t r) const {
        for (; r < count; r += kTileRows) {
            ask_for(r);
        }
    }
};

// What a tile asks for while it is multiplied: where its result will go, the left side of the tile after it, and what
// the next strip will be packed from. Far away, and in short pieces that the processor does not foresee. A part at a
// time, spread over the depth: all at once they would fill the queue that the panel's own words come through.
struct Soon {
    static constexpr int64_t kParts = kTileRows;
    SoonRows result;
    SoonRows residual;
    SoonRows left;
    SoonRows source;

    HWY_INLINE void ask_for(int64_t part) const {
        result.ask_for_part(part);
        residual.ask_for_part(part);
        left.ask_for_part(part);
        source.ask_for_part(part);
    }
};

// For products that ask for nothing.
struct NothingSoon {
    static constexpr int64_t kParts = 1;
    HWY_INLINE void ask_for(int64_t /*part*/) const {}
};

// The sums of a tile while it is multiplied: registers.
template <int vectors, class Vector>
using TileSums = Vector[kTileRows][vectors];

// Whether a word is the tile's last: then each sum is stored as soon as it is complete. Stores in one run at the end hold
// up the multiply-adds of the tile after it.
enum class Place { before_last, last };

// sums += word `word` of the left rows * one vector of each of the right columns. Each broadcast of the left side serves
// all `vectors` multiply-adds: as a memory operand of each it would cost a load every time.
template <int vectors, Place place>
HWY_INLINE void add_floats(const uint32_t* const (&rows)[kTileRows], int64_t word, const uint32_t* HWY_RESTRICT right,
                           TileSums<vectors, FloatVector>& sums, float* HWY_RESTRICT tile) {
    const Floats d;
    const hn::Rebind<uint32_t, Floats> as_words;
    FloatVector columns[vectors];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
        columns[v] = hn::BitCast(d, hn::Load(as_words, right + v * kLanes));
    }
#pragma GCC unroll 8
    for (int row = 0; row < kTileRows; ++row) {
        const FloatVector value = hn::BitCast(d, hn::Set(as_words, rows[row][word]));
#pragma GCC unroll 3
        for (int v = 0; v < vectors; ++v) {
            sums[row][v] = hn::MulAdd(value, columns[v], sums[row][v]);
            if constexpr (place == Place::last) {
                hn::Store(sums[row][v], d, tile + row * kTileColumns + v * kLanes);
            }
        }
    }
}

// tile[kTileRows, vectors] (+)= left rows * right panel of at least one word.
template <int vectors, class Later>
HWY_NOINLINE void multiply_floats(const LeftRows& left, const uint32_t* HWY_RESTRICT right, int64_t words, Chain chain,
                                  const Later& soon, float* HWY_RESTRICT tile) {
    const uint32_t* rows[kTileRows];
    left.locate(rows);
    const Floats d;
    TileSums<vectors, FloatVector> sums;
#pragma GCC unroll 8
    for (int row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 3
        for (int v = 0; v < vectors; ++v) {
            sums[row][v] = chain == Chain::start ? hn::Zero(d) : hn::Load(d, tile + row * kTileColumns + v * kLanes);
        }
    }
    const int64_t last = words - 1;
    int64_t word = 0;
    for (int64_t part = 0; part < Later::kParts; ++part) {
        soon.ask_for(part);
        for (const int64_t end = part + 1 < Later::kParts ? word + last / Later::kParts : last; word < end; ++word) {
            add_floats<vectors, Place::before_last>(rows, word, right, sums, tile);
            right += vectors * kLanes;
        }
    }
    add_floats<vectors, Place::last>(rows, last, right, sums, tile);
}

#if HWY_TARGET == HWY_AVX3

// The same with two bf16 products a word. Highway 1.0.3 has no such operation, hence the intrinsics.
template <int vectors, Place place>
inline __attribute__((always_inline, target(HWY_TARGET_STR ",avx512bf16"))) void add_pairs(
    const uint32_t* const (&rows)[kTileRows], int64_t word, const uint32_t* HWY_RESTRICT right,
    TileSums<vectors, __m512>& sums, float* HWY_RESTRICT tile) {
    __m512bh columns[vectors];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
        columns[v] = (__m512bh)_mm512_load_si512(right + v * kLanes);
    }
#pragma GCC unroll 8
    for (int row = 0; row < kTileRows; ++row) {
        const __m512bh value = (__m512bh)_mm512_set1_epi32(static_cast<int>(rows[row][word]));
#pragma GCC unroll 3
        for (int v = 0; v < vectors; ++v) {
            sums[row][v] = _mm512_dpbf16_ps(sums[row][v], value, columns[v]);
            if constexpr (place == Place::last) {
                _mm512_store_ps(tile + row * kTileColumns + v * kLanes, sums[row][v]);
            }
        }
    }
}

template <int vectors, class Later>
__attribute__((noinline, target(HWY_TARGET_STR ",avx512bf16"))) void multiply_pairs(const LeftRows& left,
                                                                                    const uint32_t* HWY_RESTRICT right,
                                                                                    int64_t words, Chain chain,
                                                                                    const Later& soon,
                                                                                    float* HWY_RESTRICT tile) {
    const uint32_t* rows[kTileRows];
    left.locate(rows);
    TileSums<vectors, __m512> sums;
#pragma GCC unroll 8
    for (int row = 0; row < kTileRows; ++row) {
#pragma GCC unroll 3
        for (int v = 0; v < vectors; ++v) {
            sums[row][v] =
                chain == Chain::start ? _mm512_setzero_ps() : _mm512_load_ps(tile + row * kTileColumns + v * kLanes);
        }
    }
    const int64_t last = words - 1;
    int64_t word = 0;
    for (int64_t part = 0; part < Later::kParts; ++part) {
        soon.ask_for(part);
        for (const int64_t end = part + 1 < Later::kParts ? word + last / Later::kParts : last; word < end; ++word) {
            add_pairs<vectors, Place::before_last>(rows, word, right, sums, tile);
            right += vectors * kLanes;
        }
    }
    add_pairs<vectors, Place::last>(rows, last, right, sums, tile);
}

#else

// Never called: pairs exist only with avx512-bf16.
template <int vectors, class Later>
void multiply_pairs(const LeftRows& left, const uint32_t* right, int64_t words, Chain chain, const Later& soon,
                    float* tile) {
    multiply_floats<vectors, Later>(left, right, words, chain, soon, tile);
}

#endif

// The first kTileRows rows of `left` times one right panel of `width` lanes into a tile of kTileRows rows, kTileColumns
// apart. The tile and the right panel are aligned to a vector.
template <class Later = NothingSoon>
inline void multiply_tile(const LeftRows& left, const uint32_t* right, int64_t width, int64_t words, Packing packing,
                          Chain chain, float* tile, const Later& soon = {}) {
    if (words == 0) {
        if (chain == Chain::start) {
            std::fill_n(tile, kTileElements, 0.0F);
        }
        return;
    }
    const bool pairs = packing == Packing::pairs;
    switch (width / kLanes) {
        case 1:
            return (pairs ? multiply_pairs<1, Later> : multiply_floats<1, Later>)(left, right, words, chain, soon,
                                                                                  tile);
        case 2:
            return (pairs ? multiply_pairs<2, Later> : multiply_floats<2, Later>)(left, right, words, chain, soon,
                                                                                  tile);
        default:
            return (pairs ? multiply_pairs<3, Later> : multiply_floats<3, Later>)(left, right, words, chain, soon,
                                                                                  tile);
    }
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
