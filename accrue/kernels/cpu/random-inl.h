// Random bits for lanes, for inclusion in each target's pass.
#if defined(ACCRUE_KERNELS_CPU_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_RANDOM_INL_H_
#undef ACCRUE_KERNELS_CPU_RANDOM_INL_H_
#else
#define ACCRUE_KERNELS_CPU_RANDOM_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// random_bits (base/random.h) of the elements first, first + 1, ...; D has lanes of 32 bits.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> random_lanes(D, uint64_t key, int64_t first) {
    const hn::Rebind<uint32_t, D> words;
    const auto element = hn::Iota(words, static_cast<uint32_t>(first));
    auto x = hn::Add(hn::Mul(element, hn::Set(words, 0x9e3779b9U)), hn::Set(words, static_cast<uint32_t>(key)));
    x = hn::Xor(x, hn::ShiftRight<16>(x));
    x = hn::Mul(x, hn::Set(words, 0x7feb352dU));
    x = hn::Xor(x, hn::ShiftRight<15>(x));
    x = hn::Mul(hn::Add(x, hn::Set(words, static_cast<uint32_t>(key >> 32))), hn::Set(words, 0x846ca68bU));
    return hn::Xor(x, hn::ShiftRight<16>(x));
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
