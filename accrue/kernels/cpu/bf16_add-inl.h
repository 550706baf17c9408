// Adding values to sums in bf16, lane by lane as kernels/bf16_sum.h says, for inclusion in each target's pass.
#if defined(ACCRUE_KERNELS_CPU_BF16_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_BF16_ADD_INL_H_
#undef ACCRUE_KERNELS_CPU_BF16_ADD_INL_H_
#else
#define ACCRUE_KERNELS_CPU_BF16_ADD_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/random-inl.h"
#include "accrue/kernels/sum_view.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// The lower halves of words as bf16.
template <class D>
HWY_INLINE void store_halves(D, hn::Vec<hn::Rebind<uint32_t, D>> words, Bf16* to, int64_t left) {
    const hn::Rebind<uint16_t, D> halves;
    store_lanes(halves, hn::TruncateTo(halves, words), reinterpret_cast<uint16_t*>(to), left);
}

// Each adds a vector of values to the elements place, place + 1, ... of its sum.
struct NearestSum {
    Bf16* sums;

    template <class Vector>
    HWY_INLINE void add(Vector value, int64_t place, int64_t left) const {
        const hn::DFromV<Vector> d;
        store_halves(d, bf16_words(hn::Add(load_floats(d, sums + place, left), value)), sums + place, left);
    }
};

struct StochasticSum {
    Bf16* sums;
    uint64_t key;

    template <class Vector>
    HWY_INLINE void add(Vector value, int64_t place, int64_t left) const {
        const hn::DFromV<Vector> d;
        const hn::Rebind<uint32_t, hn::DFromV<Vector>> words;
        const auto wanted = hn::BitCast(words, hn::Add(load_floats(d, sums + place, left), value));
        const auto random = hn::ShiftRight<16>(random_lanes(d, key, place));
        store_halves(d, hn::ShiftRight<16>(hn::Add(wanted, random)), sums + place, left);
    }
};

struct KahanSum {
    KahanBf16* sums;

    template <class Vector>
    HWY_INLINE void add(Vector value, int64_t place, int64_t left) const {
        const hn::DFromV<Vector> d;
        const hn::Rebind<uint32_t, hn::DFromV<Vector>> words;
        auto* pairs = reinterpret_cast<uint32_t*>(sums + place);
        const auto pair = load_lanes(words, pairs, left);
        const auto before = hn::BitCast(d, hn::ShiftLeft<16>(pair));
        const auto lost = hn::BitCast(d, hn::And(pair, hn::Set(words, 0xffff0000U)));
        const auto wanted = hn::Add(value, lost);
        const auto after = bf16_words(hn::Add(before, wanted));
        const auto change = hn::Sub(before, hn::BitCast(d, hn::ShiftLeft<16>(after)));
        const auto still_lost = hn::ShiftLeft<16>(bf16_words(hn::Add(change, wanted)));
        const auto nothing = hn::RebindMask(words, hn::Eq(value, hn::Zero(d)));
        store_lanes(words, hn::IfThenElse(nothing, pair, hn::Or(after, still_lost)), pairs, left);
    }
};

// Calls body with the adder of a sum in bf16.
template <class Body>
HWY_INLINE void with_bf16_sum(const SumView& sum, const Body& body) {
    if (sum.kind == SumKind::bf16) {
        body(NearestSum{static_cast<Bf16*>(sum.data)});
    } else if (sum.kind == SumKind::bf16_stochastic) {
        body(StochasticSum{static_cast<Bf16*>(sum.data), sum.rounding_key});
    } else {
        body(KahanSum{static_cast<KahanBf16*>(sum.data)});
    }
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
