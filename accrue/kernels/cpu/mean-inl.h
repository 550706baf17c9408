// Reading mean gradients and writing weights, what all optimizers share, for inclusion in each target's pass.
#if defined(ACCRUE_KERNELS_CPU_MEAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_MEAN_INL_H_
#undef ACCRUE_KERNELS_CPU_MEAN_INL_H_
#else
#define ACCRUE_KERNELS_CPU_MEAN_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/sum_view.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Elements of a mean gradient in double: as many as a vector holds.
HWY_INLINE DoubleVector mean_lanes(const int64_t* sums, double factor, int64_t left) {
    const auto sum = load_lanes(hn::Rebind<int64_t, Doubles>(), sums, left);
    return hn::Mul(hn::ConvertTo(Doubles(), sum), hn::Set(Doubles(), factor));
}

HWY_INLINE DoubleVector mean_lanes(const float* sums, double factor, int64_t left) {
    return hn::Mul(hn::PromoteTo(Doubles(), load_floats(HalfFloats(), sums, left)), hn::Set(Doubles(), factor));
}

HWY_INLINE DoubleVector mean_lanes(const Bf16* sums, double factor, int64_t left) {
    return hn::Mul(hn::PromoteTo(Doubles(), load_floats(HalfFloats(), sums, left)), hn::Set(Doubles(), factor));
}

HWY_INLINE DoubleVector mean_lanes(const KahanBf16* sums, double factor, int64_t left) {
    const HalfFloats d;
    const hn::Rebind<uint32_t, HalfFloats> words;
    const auto pair = load_lanes(words, reinterpret_cast<const uint32_t*>(sums), left);
    const auto sum = hn::BitCast(d, hn::ShiftLeft<16>(pair));
    const auto lost = hn::BitCast(d, hn::And(pair, hn::Set(words, 0xffff0000U)));
    const auto both = hn::Add(hn::PromoteTo(Doubles(), sum), hn::PromoteTo(Doubles(), lost));
    return hn::Mul(both, hn::Set(Doubles(), factor));
}

// The same rounded to a full vector of floats.
template <class Sum>
HWY_INLINE FloatVector gradient_lanes(const Sum* sums, double factor, int64_t left) {
#if HWY_TARGET == HWY_SCALAR
    return rounded_to_floats(mean_lanes(sums, factor, left));
#else
    const int64_t above = std::max<int64_t>(0, left - kDoubleLanes);
    const auto lower = rounded_to_floats(mean_lanes(sums, factor, left));
    const auto upper = rounded_to_floats(mean_lanes(sums + kDoubleLanes, factor, above));
    return hn::Combine(Floats(), upper, lower);
#endif
}

// Calls body with the sums' elements: int64_t, float, Bf16 or KahanBf16.
template <class Body>
void with_sums(const MeanView& gradient, const Body& body) {
    switch (gradient.kind) {
        case SumKind::exact:
            return body(static_cast<const int64_t*>(gradient.data));
        case SumKind::fp32:
            return body(static_cast<const float*>(gradient.data));
        case SumKind::bf16_kahan:
            return body(static_cast<const KahanBf16*>(gradient.data));
        default:
            return body(static_cast<const Bf16*>(gradient.data));
    }
}

// Writes new weights, and their copy where there is one.
HWY_INLINE void store_weights(FloatVector updated, int64_t i, int64_t left, float* weights, const AnyView& copy) {
    store(updated, weights + i, left);
    if (copy.empty()) {
        return;
    }
    if (copy.dtype == DType::bf16) {
        store(updated, static_cast<Bf16*>(copy.data) + i, left);
    } else {
        store(updated, static_cast<float*>(copy.data) + i, left);
    }
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
