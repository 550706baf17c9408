// Dropout of vectors, for inclusion in each target's pass over a source file.

#if defined(ACCRUE_KERNELS_CPU_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_DROPOUT_INL_H
#undef ACCRUE_KERNELS_CPU_DROPOUT_INL_H
#else
#define ACCRUE_KERNELS_CPU_DROPOUT_INL_H
#endif

#include <cmath>
#include <cstdint>

#include "accrue/base/random.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Whether an element is kept, and by how much it then grows; for a probability above 0.
struct KeepRule {
    explicit KeepRule(const Dropout& dropout)
        : threshold(static_cast<uint64_t>(std::ceil(static_cast<double>(dropout.probability) * 0x1p32))),
          scale(static_cast<float>(1 / (1 - static_cast<double>(dropout.probability)))) {}

    // Lanes after dropout; seed_of(i) is what lane i's hash is made of. The hashes are plain integer code, which the
    // compiler turns into vectors where the set has 64-bit products.
    template <class SeedOf>
    HWY_INLINE FloatVector apply(FloatVector vector, const SeedOf& seed_of) const {
        HWY_ALIGN uint32_t keep[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) {
            keep[i] = (mix(seed_of(i)) >> 32) >= threshold ? 1 : 0;
        }
        const Floats d;
        const hn::Rebind<uint32_t, Floats> words;
        const auto kept = hn::RebindMask(d, hn::Ne(hn::Load(words, keep), hn::Zero(words)));
        return hn::IfThenElseZero(kept, hn::Mul(vector, hn::Set(d, scale)));
    }

    uint64_t threshold;
    float scale;
};

// How far apart the seeds of neighbouring columns are (kernels.h).
inline constexpr uint64_t kColumnStep = 0x9e3779b97f4a7c15ULL;

// One row's dropout.
class RowDropout {
public:
    RowDropout(const Dropout& dropout, int64_t row) : rule_(dropout), key_(mix(dropout.site, dropout.rows.data[row])) {}

    // The elements of columns column, column + 1, ... after dropout.
    HWY_INLINE FloatVector apply(FloatVector vector, uint64_t column) const {
        return rule_.apply(
            vector, [&](int64_t i) HWY_ATTR { return key_ + (column + static_cast<uint64_t>(i)) * kColumnStep; });
    }

private:
    KeepRule rule_;
    uint64_t key_;
};

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
