// Vectors of floats from and to fp32 and bf16 memory, for inclusion in each target's pass over a source file.
// A tail runs the same code as a full vector, with the missing lanes read as 0 and not written.

#if defined(ACCRUE_KERNELS_CPU_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_LANES_INL_H
#undef ACCRUE_KERNELS_CPU_LANES_INL_H
#else
#define ACCRUE_KERNELS_CPU_LANES_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>
#if HWY_TARGET == HWY_AVX3
#include <immintrin.h>
#endif

#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/tensor/view.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Doubles = hn::ScalableTag<double>;
using HalfFloats = hn::Rebind<float, Doubles>;  // as many floats as a vector holds doubles
using FloatVector = hn::Vec<Floats>;
using DoubleVector = hn::Vec<Doubles>;

inline constexpr int64_t kLanes = HWY_LANES(float);
inline constexpr int64_t kDoubleLanes = HWY_LANES(double);

// The first `count` elements (all of them if there are more than fit) as lanes of D, the others 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_lanes(D d, const T* from, int64_t count) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (HWY_LIKELY(count >= lanes)) {
        return hn::LoadU(d, from);
    }
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN T padded[HWY_LANES(T)] = {};
    for (int64_t i = 0; i < count; ++i) {
        padded[i] = from[i];
    }
    return hn::Load(d, padded);
#else
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#endif
}

// Writes the first `count` lanes (all of them if count is larger).
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_lanes(D d, hn::Vec<D> vector, T* to, int64_t count) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (HWY_LIKELY(count >= lanes)) {
        hn::StoreU(vector, d, to);
        return;
    }
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN T padded[HWY_LANES(T)];
    hn::Store(vector, d, padded);
    for (int64_t i = 0; i < count; ++i) {
        to[i] = padded[i];
    }
#else
    hn::BlendedStore(vector, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#endif
}

// Loads floats: as many as D has lanes, or `count` if that is less.
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* from, int64_t count) {
    return load_lanes(d, from, count);
}

template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const Bf16* from, int64_t count) {
    const hn::Rebind<uint16_t, D> halves;
    const hn::Rebind<uint32_t, D> words;
    const auto bits = load_lanes(halves, reinterpret_cast<const uint16_t*>(from), count);
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}

template <class T>
HWY_INLINE FloatVector load(const T* from, int64_t count) {
    return load_floats(Floats(), from, count);
}

// Rounded to fp32. Highway's form without vectors makes the largest float of an infinity, which must stay visible.
HWY_INLINE hn::Vec<HalfFloats> rounded_to_floats(DoubleVector vector) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(HalfFloats(), static_cast<float>(hn::GetLane(vector)));
#else
    return hn::DemoteTo(HalfFloats(), vector);
#endif
}

HWY_INLINE void store(FloatVector vector, float* to, int64_t count) {
    store_lanes(Floats(), vector, to, count);
}

// Each lane as accrue::Bf16 would round it, its bits in the lower half of a word; Highway's own conversion truncates.
template <class Vector>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, hn::DFromV<Vector>>> bf16_words(Vector vector) {
    const hn::Rebind<uint32_t, hn::DFromV<Vector>> words;
    const auto bits = hn::BitCast(words, vector);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(words, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff))));
    const auto quiet_nan = hn::Or(upper, hn::Set(words, 0x40));
    return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(vector)), quiet_nan, rounded);
}

// The same as 16-bit lanes.
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, Floats>> bf16_bits(FloatVector vector) {
    return hn::TruncateTo(hn::Rebind<uint16_t, Floats>(), bf16_words(vector));
}

HWY_INLINE void store(FloatVector vector, Bf16* to, int64_t count) {
    store_lanes(hn::Rebind<uint16_t, Floats>(), bf16_bits(vector), reinterpret_cast<uint16_t*>(to), count);
}

// Rounding to bf16 beside products of pairs, which exist only where the processor rounds by itself (avx512-bf16): one
// instruction instead of eight. It takes denormals for zero, as those products do. Written as assembly since the
// functions around it are compiled for all AVX-512 processors.
#if HWY_TARGET == HWY_AVX3

HWY_INLINE hn::Vec<hn::Rebind<uint16_t, Floats>> bf16_bits_quickly(FloatVector vector) {
    __m256i halves;
    asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(vector.raw));
    return hn::Vec<hn::Rebind<uint16_t, Floats>>{halves};
}

// The lanes of `low`, and after them those of `high`.
HWY_INLINE __m512i bf16_of_both(FloatVector low, FloatVector high) {
    __m512i halves;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(low.raw), "v"(high.raw));
    return halves;
}

HWY_INLINE hn::Vec<hn::Rebind<uint32_t, Floats>> side_by_side(__m512i halves) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return hn::Vec<hn::Rebind<uint32_t, Floats>>{_mm512_permutexvar_epi16(order, halves)};
}

// Words with `low` in their lower halves and `high` in their upper ones.
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, Floats>> paired_words(FloatVector low, FloatVector high) {
    return side_by_side(bf16_of_both(low, high));
}

// The same, where each is also wanted for itself.
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, Floats>> store_and_pair(FloatVector low, FloatVector high, Bf16* to_low,
                                                                Bf16* to_high) {
    const __m512i halves = bf16_of_both(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to_low), _mm512_castsi512_si256(halves));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to_high), _mm512_extracti64x4_epi64(halves, 1));
    return side_by_side(halves);
}

#else

HWY_INLINE hn::Vec<hn::Rebind<uint16_t, Floats>> bf16_bits_quickly(FloatVector vector) {
    return bf16_bits(vector);
}

HWY_INLINE hn::Vec<hn::Rebind<uint32_t, Floats>> paired_words(FloatVector low, FloatVector high) {
    return hn::Or(bf16_words(low), hn::ShiftLeft<16>(bf16_words(high)));
}

HWY_INLINE hn::Vec<hn::Rebind<uint32_t, Floats>> store_and_pair(FloatVector low, FloatVector high, Bf16* to_low,
                                                                Bf16* to_high) {
    store(low, to_low, kLanes);
    store(high, to_high, kLanes);
    return paired_words(low, high);
}

#endif

HWY_INLINE void store_quickly(FloatVector vector, Bf16* to) {
    hn::StoreU(bf16_bits_quickly(vector), hn::Rebind<uint16_t, Floats>(), reinterpret_cast<uint16_t*>(to));
}

HWY_INLINE void store_quickly(FloatVector vector, float* to) {
    hn::StoreU(vector, Floats(), to);
}

// A Bf16 in memory that is rounded quickly when stored.
struct QuickBf16 : Bf16 {};

HWY_INLINE void store(FloatVector vector, QuickBf16* to, int64_t count) {
    store_lanes(hn::Rebind<uint16_t, Floats>(), bf16_bits_quickly(vector), reinterpret_cast<uint16_t*>(to), count);
}

// Calls body with the type known in which an output is to be stored: a View of float, Bf16, or QuickBf16 where the set
// rounds quickly.
template <class Body>
void with_output_type([[maybe_unused]] InstructionSet set, const AnyView& output, const Body& body) {
    if (output.dtype == DType::fp32) {
        return body(output.as<float>());
    }
#if HWY_TARGET == HWY_AVX3
    if (set >= InstructionSet::avx512_bf16) {
        return body(View<QuickBf16>(static_cast<QuickBf16*>(output.data), output.rows, output.columns, output.stride));
    }
#endif
    return body(output.as<Bf16>());
}

// The sum of the lanes, always in the same order.
HWY_INLINE float sum_of_lanes(FloatVector vector) {
    return hn::GetLane(hn::SumOfLanes(Floats(), vector));
}

// The sum of `count` terms; term(i, left) gives those of i, i + 1, ... (`left` of them are left, the other lanes are
// ignored). The order depends only on `count`.
template <class Term>
HWY_INLINE float sum_over(int64_t count, const Term& term) {
    const Floats d;
    FloatVector sum0 = hn::Zero(d);
    FloatVector sum1 = sum0;
    FloatVector sum2 = sum0;
    FloatVector sum3 = sum0;
    int64_t i = 0;
    for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
        sum0 = hn::Add(sum0, term(i, kLanes));
        sum1 = hn::Add(sum1, term(i + kLanes, kLanes));
        sum2 = hn::Add(sum2, term(i + 2 * kLanes, kLanes));
        sum3 = hn::Add(sum3, term(i + 3 * kLanes, kLanes));
    }
    for (; i + kLanes <= count; i += kLanes) {
        sum0 = hn::Add(sum0, term(i, kLanes));
    }
    if (i < count) {
        const auto present = hn::FirstN(d, static_cast<size_t>(count - i));
        sum1 = hn::Add(sum1, hn::IfThenElseZero(present, term(i, count - i)));
    }
    return sum_of_lanes(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
}

// Calls body(i, left) for i = 0, lanes, 2 * lanes, ... below count.
template <class Body>
HWY_INLINE void for_lanes(int64_t count, const Body& body) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        body(i, kLanes);
    }
    if (i < count) {
        body(i, count - i);
    }
}

// x, but not below `least` or above `most`; NaN stays. With vectors the order of operands sees to that; Highway's form
// without them drops NaN.
HWY_INLINE FloatVector at_least(FloatVector x, float least) {
    const auto bound = hn::Set(Floats(), least);
#if HWY_TARGET == HWY_SCALAR
    return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#else
    return hn::Max(bound, x);
#endif
}
HWY_INLINE FloatVector at_most(FloatVector x, float most) {
    const auto bound = hn::Set(Floats(), most);
#if HWY_TARGET == HWY_SCALAR
    return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#else
    return hn::Min(bound, x);
#endif
}

// Exponentials are taken as powers of two.
inline constexpr double kLogOfTwo = 0.693147180559945309417;
inline constexpr auto kLog2E = static_cast<float>(1 / kLogOfTwo);

// 2^t to within one and a half units in the last place, for -126.5 <= t <= 127.5 or NaN; infinity from there to 128.5.
// Less work than e^x, which would first bring its argument into units of log(2).
HWY_INLINE FloatVector power_of_two(FloatVector t) {
    const Floats d;
    const hn::Rebind<int32_t, Floats> integers;
    // Adding 1.5 * 2^23 + 127 rounds to a whole number and leaves it, as a float's exponent, in the lower bits.
    const auto magic = hn::Set(d, 12583039.0F);
    const auto shifted = hn::Add(t, magic);
    const auto r = hn::Sub(t, hn::Sub(shifted, magic));
    // The polynomial with the smallest relative error, 9e-8, among those that give 1 at 0.
    auto series = hn::MulAdd(hn::Set(d, 0.00132647331F), r, hn::Set(d, 0.00967151299F));
    series = hn::MulAdd(series, r, hn::Set(d, 0.0555073358F));
    series = hn::MulAdd(series, r, hn::Set(d, 0.240222424F));
    series = hn::MulAdd(series, r, hn::Set(d, 0.693147004F));
    series = hn::MulAdd(series, r, hn::Set(d, 1.0F));
    return hn::Mul(series, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integers, shifted))));
}

// The same for t <= 0 or NaN: below -126 it stays at 2^-126.
HWY_INLINE FloatVector power_of_two_below_zero(FloatVector t) {
    return power_of_two(at_least(t, -126));
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
