// Packing: values of an operand become the words that the tile kernel reads. The right side is packed into panels in
// which the words of one depth lie side by side; the left side into rows of words, where it does not lie like that
// already.
#if defined(ACCRUE_KERNELS_CPU_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_PACK_INL_H_
#undef ACCRUE_KERNELS_CPU_PACK_INL_H_
#else
#define ACCRUE_KERNELS_CPU_PACK_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>

#include <hwy/highway.h>
#if HWY_TARGET != HWY_SCALAR
#include <immintrin.h>
#endif

#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/packing.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Some lanes of an operand whose depth is contiguous (lanes `stride` apart) or whose lanes are (depths `stride` apart).
template <class T>
struct Source {
    const T* data;
    int64_t stride;
    int64_t lanes;
    int64_t depth;
};

// Words first .. end - 1 of every lane.
struct WordRange {
    int64_t first;
    int64_t end;
};

// The word made of values k and k + 1 (pairs), or of value k alone.
template <Packing packing, class T>
uint32_t make_word(T first, T second) {
    if constexpr (std::is_same_v<T, float>) {
        return std::bit_cast<uint32_t>(first);
    } else if constexpr (packing == Packing::floats) {
        return uint32_t{first.bits} << 16;
    } else {
        return uint32_t{first.bits} | uint32_t{second.bits} << 16;
    }
}

template <Packing packing>
constexpr int64_t kPerWord = packing == Packing::pairs ? 2 : 1;

// Word w of a lane; a pair cut by the end of the depth is filled up with zero, and so is a lane that does not exist.
template <Packing packing, Contiguous contiguous, class T>
uint32_t word_of(const Source<T>& source, int64_t lane, int64_t word) {
    if (lane >= source.lanes) {
        return 0;
    }
    const int64_t to_next = contiguous == Contiguous::depth ? 1 : source.stride;
    const int64_t k = word * kPerWord<packing>;
    const T* value = source.data + lane * (contiguous == Contiguous::depth ? source.stride : 1) + k * to_next;
    return make_word<packing>(*value, k + 1 < source.depth ? value[to_next] : T{});
}

using Words = hn::Rebind<uint32_t, Floats>;
using WordVector = hn::Vec<Words>;

// The words of all lanes of a vector that lie next to each other; `next` is the following depth, nullptr past the end.
template <Packing packing>
HWY_INLINE WordVector load_side_by_side(const float* values, const float* /*next*/) {
    return hn::BitCast(Words(), hn::LoadU(Floats(), values));
}
template <Packing packing>
HWY_INLINE WordVector load_side_by_side(const Bf16* values, const Bf16* next) {
    const hn::Rebind<uint16_t, Words> half;
    const auto low = hn::PromoteTo(Words(), hn::LoadU(half, reinterpret_cast<const uint16_t*>(values)));
    if constexpr (packing == Packing::floats) {
        return hn::ShiftLeft<16>(low);
    } else {
        if (next == nullptr) {
            return low;
        }
        const auto high = hn::PromoteTo(Words(), hn::LoadU(half, reinterpret_cast<const uint16_t*>(next)));
        return hn::Or(low, hn::ShiftLeft<16>(high));
    }
}

// The word `word` of the vector of lanes that begins at `lane`, from lanes that lie next to each other.
template <Packing packing, class T>
HWY_INLINE WordVector words_across(const Source<T>& source, int64_t lane, int64_t word) {
    const int64_t k = word * kPerWord<packing>;
    const T* values = source.data + k * source.stride + lane;
    return load_side_by_side<packing>(values, k + 1 < source.depth ? values + source.stride : nullptr);
}

#if HWY_TARGET != HWY_SCALAR

// Four words of one lane, from 4 or (pairs) 8 values.
template <Packing packing>
HWY_INLINE __m128i load_four_words(const float* values) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
}
template <Packing packing>
HWY_INLINE __m128i load_four_words(const Bf16* values) {
    if constexpr (packing == Packing::pairs) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
    } else {
        const __m128i halves = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(values));
        return _mm_slli_epi32(_mm_cvtepu16_epi32(halves), 16);
    }
}

// Block b of the result holds four words of lane 4 b.
template <Packing packing, class T>
HWY_INLINE WordVector load_every_fourth(const T* values, int64_t stride) {
#if HWY_TARGET == HWY_AVX3
    __m512i blocks = _mm512_castsi128_si512(load_four_words<packing>(values));
    blocks = _mm512_inserti32x4(blocks, load_four_words<packing>(values + 4 * stride), 1);
    blocks = _mm512_inserti32x4(blocks, load_four_words<packing>(values + 8 * stride), 2);
    blocks = _mm512_inserti32x4(blocks, load_four_words<packing>(values + 12 * stride), 3);
#else
    __m256i blocks = _mm256_castsi128_si256(load_four_words<packing>(values));
    blocks = _mm256_inserti128_si256(blocks, load_four_words<packing>(values + 4 * stride), 1);
#endif
    return WordVector{blocks};
}

// Block b goes to the words of lane 4 b.
HWY_INLINE void store_every_fourth(WordVector blocks, uint32_t* out, int64_t stride) {
    const auto place = [&](int64_t block) { return reinterpret_cast<__m128i*>(out + block * 4 * stride); };
#if HWY_TARGET == HWY_AVX3
    _mm_storeu_si128(place(0), _mm512_castsi512_si128(blocks.raw));
    _mm_storeu_si128(place(1), _mm512_extracti32x4_epi32(blocks.raw, 1));
    _mm_storeu_si128(place(2), _mm512_extracti32x4_epi32(blocks.raw, 2));
    _mm_storeu_si128(place(3), _mm512_extracti32x4_epi32(blocks.raw, 3));
#else
    _mm_storeu_si128(place(0), _mm256_castsi256_si128(blocks.raw));
    _mm_storeu_si128(place(1), _mm256_extracti128_si256(blocks.raw, 1));
#endif
}

// Turns the 4 x 4 words in each block of four vectors around.
HWY_INLINE void turn_blocks(WordVector (&rows)[4]) {
    const Words d32;
    const hn::Repartition<uint64_t, Words> d64;
    const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d32, rows[0], rows[1]));
    const auto cd_low = hn::BitCast(d64, hn::InterleaveLower(d32, rows[2], rows[3]));
    const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d32, rows[0], rows[1]));
    const auto cd_high = hn::BitCast(d64, hn::InterleaveUpper(d32, rows[2], rows[3]));
    rows[0] = hn::BitCast(d32, hn::InterleaveLower(d64, ab_low, cd_low));
    rows[1] = hn::BitCast(d32, hn::InterleaveUpper(d64, ab_low, cd_low));
    rows[2] = hn::BitCast(d32, hn::InterleaveLower(d64, ab_high, cd_high));
    rows[3] = hn::BitCast(d32, hn::InterleaveUpper(d64, ab_high, cd_high));
}

#if HWY_TARGET == HWY_AVX3

// Eight rows of 16 floats become 16 rows of eight. Each is written at once: it will be read at once, soon.
HWY_INLINE void turn_eight_rows(const float* values, int64_t stride, float* out) {
    WordVector upper[4];
    WordVector lower[4];
    for (int64_t i = 0; i < 4; ++i) {
        upper[i] = hn::BitCast(Words(), hn::LoadU(Floats(), values + i * stride));
        lower[i] = hn::BitCast(Words(), hn::LoadU(Floats(), values + (4 + i) * stride));
    }
    turn_blocks(upper);
    turn_blocks(lower);
    const __m512i first_blocks = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i last_blocks = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    for (int64_t i = 0; i < 4; ++i) {
        const auto row = [&](int64_t r) { return reinterpret_cast<__m256i*>(out + r * 8); };
        const __m512i first = _mm512_permutex2var_epi64(upper[i].raw, first_blocks, lower[i].raw);
        const __m512i last = _mm512_permutex2var_epi64(upper[i].raw, last_blocks, lower[i].raw);
        _mm256_storeu_si256(row(i), _mm512_castsi512_si256(first));
        _mm256_storeu_si256(row(4 + i), _mm512_extracti64x4_epi64(first, 1));
        _mm256_storeu_si256(row(8 + i), _mm512_castsi512_si256(last));
        _mm256_storeu_si256(row(12 + i), _mm512_extracti64x4_epi64(last, 1));
    }
}

#endif

// Four words of a vector of lanes whose depth is contiguous, into a panel.
template <Packing packing, class T>
HWY_INLINE void pack_four_depths(const Source<T>& source, int64_t lane, int64_t word, int64_t width, uint32_t* out) {
    const T* values = source.data + lane * source.stride + word * kPerWord<packing>;
    WordVector rows[4];
    for (int64_t i = 0; i < 4; ++i) {
        rows[i] = load_every_fourth<packing>(values + i * source.stride, source.stride);
    }
    turn_blocks(rows);
    for (int64_t i = 0; i < 4; ++i) {
        hn::StoreU(rows[i], Words(), out + (word + i) * width + lane);
    }
}

// Four words of a vector of lanes that are contiguous, into rows.
template <Packing packing, class T>
HWY_INLINE void pack_four_lanes(const Source<T>& source, int64_t lane, int64_t word, int64_t stride, uint32_t* out) {
    WordVector rows[4];
    for (int64_t i = 0; i < 4; ++i) {
        rows[i] = words_across<packing>(source, lane, word + i);
    }
    turn_blocks(rows);
    for (int64_t i = 0; i < 4; ++i) {
        store_every_fourth(rows[i], out + (lane + i) * stride + word, stride);
    }
}

#endif  // HWY_TARGET != HWY_SCALAR

// The words of a panel of `width` lanes from lanes whose depth is contiguous. In runs of 16 words, so that a cache line
// of the source is used whole; the lines of a later run are asked for ahead, since they are too many streams for the
// processor to guess.
template <Packing packing, class T>
void pack_panel_along_depth(const Source<T>& source, WordRange range, int64_t width, uint32_t* out) {
    int64_t done = range.first;
#if HWY_TARGET != HWY_SCALAR
    constexpr int64_t kRun = 16;
    constexpr int64_t kAhead = 4 * kRun;
    const int64_t whole_lanes = source.lanes / kLanes * kLanes;
    const int64_t in_fours =
        range.first + (std::min(range.end, source.depth / kPerWord<packing>) - range.first) / 4 * 4;
    for (; done < in_fours; done = std::min(done + kRun, in_fours)) {
        const int64_t end = std::min(done + kRun, in_fours);
        for (int64_t lane = 0; lane < whole_lanes; lane += kLanes) {
            for (int64_t i = 0; i < kLanes; ++i) {
                __builtin_prefetch(source.data + (lane + i) * source.stride + (done + kAhead) * kPerWord<packing>);
            }
            for (int64_t word = done; word < end; word += 4) {
                pack_four_depths<packing>(source, lane, word, width, out);
            }
        }
        for (int64_t lane = whole_lanes; lane < width; ++lane) {
            for (int64_t word = done; word < end; ++word) {
                out[word * width + lane] = word_of<packing, Contiguous::depth>(source, lane, word);
            }
        }
    }
#endif
    for (int64_t word = done; word < range.end; ++word) {
        for (int64_t lane = 0; lane < width; ++lane) {
            out[word * width + lane] = word_of<packing, Contiguous::depth>(source, lane, word);
        }
    }
}

// The words of a panel of `width` lanes from lanes that are contiguous. Later depths are asked for ahead: each lies on
// another page, where the processor does not look by itself.
template <Packing packing, class T>
void pack_panel_along_lanes(const Source<T>& source, WordRange range, int64_t width, uint32_t* out) {
    constexpr int64_t kAhead = 16;
    constexpr int64_t kLine = 64 / sizeof(T);
    const int64_t whole_lanes = std::min(width, source.lanes / kLanes * kLanes);
    for (int64_t word = range.first; word < range.end; ++word) {
        uint32_t* to = out + word * width;
        for (int64_t i = 0; i < kPerWord<packing>; ++i) {
            const T* later = source.data + ((word + kAhead) * kPerWord<packing> + i) * source.stride;
            for (int64_t lane = 0; lane < source.lanes; lane += kLine) {
                __builtin_prefetch(later + lane);
            }
        }
        for (int64_t lane = 0; lane < whole_lanes; lane += kLanes) {
            hn::StoreU(words_across<packing>(source, lane, word), Words(), to + lane);
        }
        for (int64_t lane = whole_lanes; lane < width; ++lane) {
            to[lane] = word_of<packing, Contiguous::lanes>(source, lane, word);
        }
    }
}

// Rows of words, `stride` apart, from lanes whose depth is contiguous: a copy that widens where it must.
template <Packing packing, class T>
void pack_rows_along_depth(const Source<T>& source, WordRange range, int64_t stride, uint32_t* out) {
    for (int64_t lane = 0; lane < source.lanes; ++lane) {
        for (int64_t word = range.first; word < range.end; ++word) {
            out[lane * stride + word] = word_of<packing, Contiguous::depth>(source, lane, word);
        }
    }
}

// Rows of words, `stride` apart, from lanes that are contiguous: turned around.
template <Packing packing, class T>
void pack_rows_along_lanes(const Source<T>& source, WordRange range, int64_t stride, uint32_t* out) {
    int64_t in_fours = range.first;
    int64_t whole_lanes = 0;
#if HWY_TARGET != HWY_SCALAR
    in_fours += (range.end - range.first) / 4 * 4;
    whole_lanes = source.lanes / kLanes * kLanes;
    // Rows of the source are too many streams for the processor to foresee, and so are those of the result.
    constexpr int64_t kAhead = 8 * kLanes;
    for (int64_t lane = 0; lane < whole_lanes; lane += kLanes) {
        const int64_t later = std::min(lane + kAhead, source.lanes - kLanes);
        for (int64_t word = range.first; word < in_fours; word += 4) {
            for (int64_t i = 0; i < 4 * kPerWord<packing>; ++i) {
                __builtin_prefetch(source.data + (word * kPerWord<packing> + i) * source.stride + later);
            }
            pack_four_lanes<packing>(source, lane, word, stride, out);
        }
    }
#endif
    for (int64_t lane = 0; lane < source.lanes; ++lane) {
        for (int64_t word = lane < whole_lanes ? in_fours : range.first; word < range.end; ++word) {
            out[lane * stride + word] = word_of<packing, Contiguous::lanes>(source, lane, word);
        }
    }
}

template <class T>
Source<T> source_of(const Operand& operand, const OperandBlock& block) {
    const auto* data = static_cast<const T*>(operand.data);
    const bool along_depth = operand.contiguous == Contiguous::depth;
    return {.data = along_depth ? data + block.first_lane * operand.stride + block.first_depth
                                : data + block.first_depth * operand.stride + block.first_lane,
            .stride = operand.stride,
            .lanes = block.lanes,
            .depth = block.depth};
}

// Calls body with the packing and the element type known: body.template operator()<packing, T>().
template <class Body>
void with_packing(DType dtype, Packing packing, const Body& body) {
    if (dtype == DType::fp32) {
        body.template operator()<Packing::floats, float>();
    } else if (packing == Packing::pairs) {
        body.template operator()<Packing::pairs, Bf16>();
    } else {
        body.template operator()<Packing::floats, Bf16>();
    }
}

// One panel of `width` lanes: words `range` of a block whose panel begins at `out`.
inline void pack_panel(const Operand& operand, const OperandBlock& block, WordRange range, Packing packing,
                       int64_t width, uint32_t* out);

// The same for fp32 values that become bf16: some depths at a time, so that the converted values stay in the first-level
// cache. Rounded as a copy of the whole operand would be.
inline void pack_rounded_panel(const Operand& operand, const OperandBlock& block, WordRange range, Packing packing,
                               int64_t width, uint32_t* out) {
    constexpr int64_t kDepths = 64;
    constexpr int64_t kMostLanes = 64;
    constexpr int64_t kAhead = 32;                    // depths, where these are not contiguous
    constexpr int64_t kLine = 16;                     // floats of a cache line
    HWY_ALIGN uint16_t memory[kDepths * kMostLanes];  // as Bf16 it would be cleared each time
    auto* halves = reinterpret_cast<Bf16*>(memory);
    const int64_t per_word = packing == Packing::pairs ? 2 : 1;
    const Source<float> source = source_of<float>(operand, block);
    const bool along_depth = operand.contiguous == Contiguous::depth;
    for (int64_t word = range.first; word < range.end; word += kDepths / per_word) {
        const int64_t first = word * per_word;
        const int64_t words = std::min(kDepths / per_word, range.end - word);
        const int64_t depth = std::min(words * per_word, block.depth - first);
        const int64_t lines = along_depth ? block.lanes : depth;
        const int64_t length = along_depth ? depth : block.lanes;
        const int64_t stride = along_depth ? kDepths : kMostLanes;
        const float* values = source.data + first * (along_depth ? 1 : source.stride);
        for (int64_t line = 0; line < lines; ++line) {
            const float* here = values + line * source.stride;
            const float* later = here + (along_depth ? kDepths : kAhead * source.stride);
            for (int64_t i = 0; i < length; i += kLine) {
                __builtin_prefetch(later + i);
            }
            for_lanes(length, [&](int64_t i, int64_t left)
                                  HWY_ATTR { store(load(here + i, left), halves + line * stride + i, left); });
        }
        pack_panel({.data = halves, .dtype = DType::bf16, .stride = stride, .contiguous = operand.contiguous},
                   {.first_lane = 0, .lanes = block.lanes, .first_depth = 0, .depth = depth}, {0, words}, packing,
                   width, out + word * width);
    }
}

inline void pack_panel(const Operand& operand, const OperandBlock& block, WordRange range, Packing packing,
                       int64_t width, uint32_t* out) {
    if (operand.rounded) {
        pack_rounded_panel(operand, block, range, packing, width, out);
        return;
    }
    with_packing(operand.dtype, packing, [&]<Packing kind, class T>() HWY_ATTR {
        const Source<T> source = source_of<T>(operand, block);
        if (operand.contiguous == Contiguous::depth) {
            pack_panel_along_depth<kind>(source, range, width, out);
        } else {
            pack_panel_along_lanes<kind>(source, range, width, out);
        }
    });
}

// Words `range` of a block's lanes as rows, `stride` apart.
inline void pack_rows(const Operand& operand, const OperandBlock& block, WordRange range, Packing packing,
                      int64_t stride, uint32_t* out) {
    with_packing(operand.dtype, packing, [&]<Packing kind, class T>() HWY_ATTR {
        const Source<T> source = source_of<T>(operand, block);
        if (operand.contiguous == Contiguous::depth) {
            pack_rows_along_depth<kind>(source, range, stride, out);
        } else {
            pack_rows_along_lanes<kind>(source, range, stride, out);
        }
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
