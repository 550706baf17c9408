// Packing: lanes of an operand become panels in which the words of one depth lie side by side, as the tile kernel reads
// them.
#if defined(ACCRUE_KERNELS_CPU_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_PACK_INL_H_
#undef ACCRUE_KERNELS_CPU_PACK_INL_H_
#else
#define ACCRUE_KERNELS_CPU_PACK_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "accrue/kernels/cpu/packing.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Some lanes of an operand whose depth is contiguous (`stride` apart) or whose lanes are (depths `stride` apart).
template <class T>
struct Source {
    const T* data;
    int64_t stride;
    int64_t lanes;
    int64_t depth;
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

// Word w of a lane whose depth is contiguous; a pair cut by the end of the depth is filled up with zero.
template <Packing packing, class T>
uint32_t word_along_depth(const Source<T>& source, int64_t lane, int64_t word) {
    if (lane >= source.lanes) {
        return 0;
    }
    const T* values = source.data + lane * source.stride;
    const int64_t k = word * kPerWord<packing>;
    return make_word<packing>(values[k], k + 1 < source.depth ? values[k + 1] : T{});
}

#if HWY_TARGET != HWY_SCALAR

// Four words of one lane, from 4 or (pairs) 8 values.
template <Packing packing>
auto load_words(const float* values) {
    const hn::FixedTag<uint32_t, 4> words;
    return hn::BitCast(words, hn::LoadU(hn::FixedTag<float, 4>(), values));
}
template <Packing packing>
auto load_words(const Bf16* values) {
    const hn::FixedTag<uint32_t, 4> words;
    const auto* bits = reinterpret_cast<const uint16_t*>(values);
    if constexpr (packing == Packing::pairs) {
        return hn::BitCast(words, hn::LoadU(hn::FixedTag<uint16_t, 8>(), bits));
    } else {
        return hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(hn::FixedTag<uint16_t, 4>(), bits)));
    }
}

// Turns 4 lanes x 4 words around: afterwards 4 words x 4 lanes, `width` apart.
template <Packing packing, class T>
void pack_4_by_4(const Source<T>& source, int64_t lane, int64_t word, int64_t width, uint32_t* out) {
    const hn::FixedTag<uint32_t, 4> d32;
    const hn::FixedTag<uint64_t, 2> d64;
    const T* values = source.data + lane * source.stride + word * kPerWord<packing>;
    const auto zero = hn::Zero(d32);
    const int64_t present = source.lanes - lane;
    const auto a = present > 0 ? load_words<packing>(values) : zero;
    const auto b = present > 1 ? load_words<packing>(values + source.stride) : zero;
    const auto c = present > 2 ? load_words<packing>(values + 2 * source.stride) : zero;
    const auto d = present > 3 ? load_words<packing>(values + 3 * source.stride) : zero;
    const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d32, a, b));
    const auto cd_low = hn::BitCast(d64, hn::InterleaveLower(d32, c, d));
    const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d32, a, b));
    const auto cd_high = hn::BitCast(d64, hn::InterleaveUpper(d32, c, d));
    hn::StoreU(hn::BitCast(d32, hn::InterleaveLower(d64, ab_low, cd_low)), d32, out);
    hn::StoreU(hn::BitCast(d32, hn::InterleaveUpper(d64, ab_low, cd_low)), d32, out + width);
    hn::StoreU(hn::BitCast(d32, hn::InterleaveLower(d64, ab_high, cd_high)), d32, out + 2 * width);
    hn::StoreU(hn::BitCast(d32, hn::InterleaveUpper(d64, ab_high, cd_high)), d32, out + 3 * width);
}

// One panel from lanes whose depth is contiguous: in runs of 16 words, so that a cache line of the source is used
// whole.
template <Packing packing, class T>
void pack_panel_along_depth(const Source<T>& source, int64_t width, uint32_t* out) {
    const int64_t words = words_of(source.depth, packing);
    const int64_t in_fours = source.depth / kPerWord<packing> / 4 * 4;
    for (int64_t run = 0; run < in_fours; run += 16) {
        const int64_t end = std::min(run + 16, in_fours);
        for (int64_t lane = 0; lane < width; lane += 4) {
            for (int64_t word = run; word < end; word += 4) {
                pack_4_by_4<packing>(source, lane, word, width, out + word * width + lane);
            }
        }
    }
    for (int64_t word = in_fours; word < words; ++word) {
        for (int64_t lane = 0; lane < width; ++lane) {
            out[word * width + lane] = word_along_depth<packing>(source, lane, word);
        }
    }
}

#else

template <Packing packing, class T>
void pack_panel_along_depth(const Source<T>& source, int64_t width, uint32_t* out) {
    for (int64_t word = 0; word < words_of(source.depth, packing); ++word) {
        for (int64_t lane = 0; lane < width; ++lane) {
            out[word * width + lane] = word_along_depth<packing>(source, lane, word);
        }
    }
}

#endif  // HWY_TARGET != HWY_SCALAR

// The words of Lanes(d) lanes that lie next to each other; `next` is the following depth, nullptr past the end.
template <Packing packing, class D>
auto load_side_by_side(D d, const float* values, const float* /*next*/) {
    return hn::BitCast(d, hn::LoadU(hn::Rebind<float, D>(), values));
}
template <Packing packing, class D>
auto load_side_by_side(D d, const Bf16* values, const Bf16* next) {
    const hn::Rebind<uint16_t, D> half;
    const auto low = hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const uint16_t*>(values)));
    if constexpr (packing == Packing::floats) {
        return hn::ShiftLeft<16>(low);
    } else {
        if (next == nullptr) {
            return low;
        }
        const auto high = hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const uint16_t*>(next)));
        return hn::Or(low, hn::ShiftLeft<16>(high));
    }
}

// Part of one depth of one panel: `width` lanes, of which `present` exist and the others become zero.
template <Packing packing, class D, class T>
void pack_one_depth(D d, const T* values, const T* next, int64_t present, int64_t width, uint32_t* out) {
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    int64_t lane = 0;
    for (; lane + step <= std::min(width, present); lane += step) {
        hn::StoreU(load_side_by_side<packing>(d, values + lane, next == nullptr ? nullptr : next + lane), d,
                   out + lane);
    }
    for (; lane < width; ++lane) {
        const bool exists = lane < present;
        out[lane] = exists ? make_word<packing>(values[lane], next == nullptr ? T{} : next[lane]) : 0;
    }
}

// Panels from lanes that are contiguous: side by side, so that a cache line of the source is used whole.
template <Packing packing, class D, class T>
void pack_panels_along_lanes(D d, const Source<T>& source, int64_t width, uint32_t* out) {
    const int64_t words = words_of(source.depth, packing);
    for (int64_t word = 0; word < words; ++word) {
        const int64_t k = word * kPerWord<packing>;
        const T* values = source.data + k * source.stride;
        const T* next = k + 1 < source.depth ? values + source.stride : nullptr;
        uint32_t* panel = out + word * width;
        for (int64_t lane = 0; lane < source.lanes; lane += width, panel += words * width) {
            pack_one_depth<packing>(d, values + lane, next == nullptr ? nullptr : next + lane, source.lanes - lane,
                                    width, panel);
        }
    }
}

// Panels of `width` lanes, one after another. Not more than a few side by side: their places in the cache collide.
template <Packing packing, class T>
void pack_typed(const Operand& operand, const OperandBlock& block, int64_t width, uint32_t* out) {
    constexpr int64_t kSideBySide = 32;
    const auto* data = static_cast<const T*>(operand.data);
    const int64_t words = words_of(block.depth, packing);
    const bool along_depth = operand.contiguous == Contiguous::depth;
    const int64_t group = along_depth ? width : std::max(width, kSideBySide / width * width);
    for (int64_t lane = 0; lane < block.lanes; lane += group) {
        const int64_t first = block.first_lane + lane;
        const Source<T> source{.data = along_depth ? data + first * operand.stride + block.first_depth
                                                   : data + block.first_depth * operand.stride + first,
                               .stride = operand.stride,
                               .lanes = std::min(group, block.lanes - lane),
                               .depth = block.depth};
        if (along_depth) {
            pack_panel_along_depth<packing>(source, width, out + lane * words);
        } else if (width <= 8) {
            pack_panels_along_lanes<packing>(hn::CappedTag<uint32_t, 8>(), source, width, out + lane * words);
        } else {
            pack_panels_along_lanes<packing>(hn::ScalableTag<uint32_t>(), source, width, out + lane * words);
        }
    }
}

inline void pack_panels(const Operand& operand, const OperandBlock& block, Packing packing, int64_t width,
                        uint32_t* out) {
    if (operand.dtype == DType::fp32) {
        pack_typed<Packing::floats, float>(operand, block, width, out);
    } else if (packing == Packing::pairs) {
        pack_typed<Packing::pairs, Bf16>(operand, block, width, out);
    } else {
        pack_typed<Packing::floats, Bf16>(operand, block, width, out);
    }
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
