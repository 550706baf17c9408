// Adding one grain's values to a window's sum and to the grain's record, for inclusion in each target's pass.
#if defined(ACCRUE_KERNELS_CPU_EXACT_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_EXACT_ADD_INL_H_
#undef ACCRUE_KERNELS_CPU_EXACT_ADD_INL_H_
#else
#define ACCRUE_KERNELS_CPU_EXACT_ADD_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/sum_view.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Adds runs of values to a sum and keeps their record in vectors; the same runs in the same order give the same record.
class ValueAdder {
public:
    explicit ValueAdder(const SumView& sum) : sum_(sum) {}

    // Adds values to the sum's elements first, first + 1, ...
    HWY_INLINE void add(const float* values, int64_t count, int64_t first) {
        if (sum_.data == nullptr) {
            add_to(values, count, [](HalfVector, int64_t, int64_t) {});
        } else if (sum_.kind == SumKind::exact) {
            add_to(values, count, [this, first](HalfVector value, int64_t i, int64_t left) HWY_ATTR {
                add_units(value, static_cast<int64_t*>(sum_.data) + first + i, left);
            });
        } else {
            add_to(values, count, [this, first](HalfVector value, int64_t i, int64_t left) HWY_ATTR {
                float* place = static_cast<float*>(sum_.data) + first + i;
                store_lanes(HalfFloats(), hn::Add(load_lanes(HalfFloats(), place, left), value), place, left);
            });
        }
    }

    // What was added so far, as a grain's record.
    [[nodiscard]] GrainRecord record() const {
        const Doubles d;
        return {.squares = hn::GetLane(hn::SumOfLanes(d, squares_)),
                .largest = static_cast<float>(hn::GetLane(hn::MaxOfLanes(d, largest_))),
                .finite = hn::AllTrue(d, hn::Eq(zeros_, hn::Zero(d)))};
    }

private:
    using HalfVector = hn::Vec<HalfFloats>;

    template <class Add>
    HWY_INLINE void add_to(const float* values, int64_t count, const Add& add_finite) {
        const Doubles d;
        for (int64_t i = 0; i < count; i += kStep) {
            const int64_t left = count - i;
            const HalfVector value = load_lanes(HalfFloats(), values + i, left);
            // Zero times a value stays zero unless the value is not finite: one operation instead of a mask to keep.
            zeros_ = hn::MulAdd(hn::PromoteTo(d, value), hn::Zero(d), zeros_);
            const HalfVector finite = hn::IfThenElseZero(hn::IsFinite(value), value);
            const DoubleVector wide = hn::PromoteTo(d, finite);
            squares_ = hn::MulAdd(wide, wide, squares_);
            largest_ = hn::Max(largest_, hn::Abs(wide));
            add_finite(finite, i, left);
        }
    }

    // What is too large for 64 bits adds 0: the record's `largest` tells that the window must be replayed.
    HWY_INLINE void add_units(HalfVector value, int64_t* place, int64_t left) const {
        const Doubles d;
        const hn::Rebind<int64_t, Doubles> integers;
        const DoubleVector units = hn::Round(hn::Mul(hn::PromoteTo(d, value), hn::Set(d, sum_.per_unit)));
        const auto fits = hn::Lt(hn::Abs(units), hn::Set(d, 0x1p63));
        const auto whole = hn::ConvertTo(integers, hn::IfThenElseZero(fits, units));
        store_lanes(integers, hn::Add(load_lanes(integers, place, left), whole), place, left);
    }

    static constexpr int64_t kStep = HWY_LANES(double);

    SumView sum_;
    DoubleVector squares_ = hn::Zero(Doubles());
    DoubleVector largest_ = hn::Zero(Doubles());
    DoubleVector zeros_ = hn::Zero(Doubles());
};

// Joins what is known of another part of the same tensor and grain.
inline void add_record(GrainRecord& record, const GrainRecord& part) {
    record.squares += part.squares;
    record.largest = std::max(record.largest, part.largest);
    record.finite = record.finite && part.finite;
}

// Adds values to elements first, first + 1, ... of the sum; what is known of them goes to `record`, not to sum.record.
inline void add_values(const float* values, int64_t count, const SumView& sum, int64_t first, GrainRecord& record) {
    ValueAdder adder(sum);
    adder.add(values, count, first);
    add_record(record, adder.record());
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
