// Adding one grain's values to a window's sum and to the grain's record, for inclusion in each target's pass.
#if defined(ACCRUE_KERNELS_CPU_EXACT_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_EXACT_ADD_INL_H_
#undef ACCRUE_KERNELS_CPU_EXACT_ADD_INL_H_
#else
#define ACCRUE_KERNELS_CPU_EXACT_ADD_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

#include "accrue/kernels/cpu/bf16_add-inl.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/sum_view.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Rows of values, `stride` apart.
struct ValueRows {
    const float* first;
    int64_t stride;
    int64_t rows;
    int64_t columns;
};

// Adds rows of values to a sum and keeps their record in vectors; the same rows in the same order give the same record.
class ValueAdder {
public:
    ValueAdder() = default;
    explicit ValueAdder(const SumView& sum) : sum_(sum), safe_(safe_size(sum)) {}

    // Adds values to the sum's elements first, first + 1, ...
    HWY_INLINE void add(const float* values, int64_t count, int64_t first) {
        add({.first = values, .stride = count, .rows = 1, .columns = count}, first, count);
    }

    // Adds row r to the sum's elements first + r * stride, first + r * stride + 1, ...
    HWY_INLINE void add(const ValueRows& values, int64_t first, int64_t stride) {
        const bool ordinary = note_largest(values);
        const DoubleVector per_unit = hn::Set(Doubles(), sum_.per_unit);
        if (sum_.kind == SumKind::exact && ordinary && sum_.data != nullptr) {
            int64_t* places = static_cast<int64_t*>(sum_.data) + first;
            add_to(values, stride, [per_unit, places](HalfVector value, int64_t i, int64_t left) HWY_ATTR {
                add_whole(rounded(units_of(value, per_unit)), places + i, left);
            });
        } else if (sum_.data == nullptr) {
            add_to(values, stride, [](HalfVector, int64_t, int64_t) {});
        } else if (sum_.kind == SumKind::fp32) {
            float* places = static_cast<float*>(sum_.data) + first;
            add_to(values, stride, [places](HalfVector value, int64_t i, int64_t left) HWY_ATTR {
                store_lanes(HalfFloats(), hn::Add(load_lanes(HalfFloats(), places + i, left), value), places + i, left);
            });
        } else if (sum_.kind != SumKind::exact) {
            add_to_bf16(values, first, stride);
        } else {
            int64_t* places = static_cast<int64_t*>(sum_.data) + first;
            add_to(values, stride, [per_unit, places](HalfVector value, int64_t i, int64_t left) HWY_ATTR {
                // What is too large for 64 bits adds 0: the record's `largest` tells that the window must be replayed.
                const DoubleVector units = units_of(value, per_unit);
                const auto fits = hn::Lt(hn::Abs(units), hn::Set(Doubles(), 0x1p63));
                add_whole(rounded(hn::IfThenElseZero(fits, units)), places + i, left);
            });
        }
    }

    // What was added so far, as a grain's record.
    [[nodiscard]] GrainRecord record() const {
        return {.squares = hn::GetLane(hn::SumOfLanes(Doubles(), hn::Add(squares_, other_squares_))),
                .largest = hn::GetLane(hn::MaxOfLanes(Floats(), largest_)),
                .not_finite = !finite_};
    }

private:
    using HalfVector = hn::Vec<HalfFloats>;
    using Integers = hn::Rebind<int64_t, Doubles>;

    // Raises the largest value; true if all are finite and their units surely fit, so that nothing needs a second look.
    HWY_INLINE bool note_largest(const ValueRows& values) {
        if (values.stride == values.columns) {
            return note_largest_of_rows({values.first, 0, 1, values.rows * values.columns});
        }
        return note_largest_of_rows(values);
    }
    HWY_INLINE bool note_largest_of_rows(const ValueRows& values) {
        const Floats d;
        auto ordinary = hn::FirstN(d, static_cast<size_t>(kLanes));
        FloatVector largest = largest_;
        for_values(values, [&](const float* value, int64_t left) HWY_ATTR {
            const FloatVector size = hn::Abs(load(value, left));
            ordinary = hn::And(ordinary, hn::Lt(size, hn::Set(d, safe_)));
            largest = hn::Max(largest, size);
        });
        if (HWY_LIKELY(hn::AllTrue(d, ordinary))) {
            largest_ = largest;
            return true;
        }
        for_values(values, [&](const float* value, int64_t left) HWY_ATTR {
            const FloatVector size = hn::Abs(load(value, left));
            const auto finite = hn::IsFinite(size);
            finite_ = finite_ && hn::AllTrue(d, finite);
            largest_ = hn::Max(largest_, hn::IfThenElseZero(finite, size));
        });
        return false;
    }

    template <class Body>
    static HWY_INLINE void for_values(const ValueRows& values, const Body& body) {
        for (int64_t r = 0; r < values.rows; ++r) {
            const float* row = values.first + r * values.stride;
            for_lanes(values.columns, [&](int64_t i, int64_t left) HWY_ATTR { body(row + i, left); });
        }
    }

    // A function by itself, so that the way to exact sums stays short.
    HWY_NOINLINE void add_to_bf16(const ValueRows& values, int64_t first, int64_t stride) {
        with_bf16_sum(sum_, [&](auto sum) HWY_ATTR {
            add_to(values, stride,
                   [&](HalfVector value, int64_t i, int64_t left) HWY_ATTR { sum.add(value, first + i, left); });
        });
    }

    // Squares and adds what is finite; the rest counts as 0. add_finite(value, place, left) gets places r * stride + i.
    template <class Add>
    HWY_INLINE void add_to(const ValueRows& values, int64_t stride, const Add& add_finite) {
        const auto as_it_is = [](HalfVector value) HWY_ATTR { return value; };
        if (HWY_LIKELY(finite_ && values.columns % kStep == 0)) {
            add_each<true>(values, stride, add_finite, as_it_is);
        } else if (finite_) {
            add_each<false>(values, stride, add_finite, as_it_is);
        } else {
            add_each<false>(values, stride, add_finite,
                            [](HalfVector value) HWY_ATTR { return hn::IfThenElseZero(hn::IsFinite(value), value); });
        }
    }

    template <bool whole_vectors, class Add, class Cleaned>
    HWY_INLINE void add_each(const ValueRows& values, int64_t stride, const Add& add_finite, const Cleaned& cleaned) {
        // In registers: the compiler can't know that places are not part of this. In turns: an addition takes a while.
        DoubleVector squares = squares_;
        DoubleVector other = other_squares_;
        for (int64_t r = 0; r < values.rows; ++r) {
            const float* row = values.first + r * values.stride;
            for (int64_t i = 0; i < values.columns; i += kStep) {
                const int64_t left = whole_vectors ? kStep : values.columns - i;
                const HalfVector value = cleaned(load_lanes(HalfFloats(), row + i, left));
                const DoubleVector wide = hn::PromoteTo(Doubles(), value);
                const DoubleVector next = hn::MulAdd(wide, wide, other);
                other = squares;
                squares = next;
                add_finite(value, r * stride + i, left);
            }
        }
        squares_ = squares;
        other_squares_ = other;
    }

    static HWY_INLINE DoubleVector units_of(HalfVector value, DoubleVector per_unit) {
        return hn::Mul(hn::PromoteTo(Doubles(), value), per_unit);
    }

    // To the nearest whole number, ties to even.
    static HWY_INLINE hn::Vec<Integers> rounded(DoubleVector units) {
#if HWY_TARGET == HWY_AVX3
        return hn::Vec<Integers>{_mm512_cvtpd_epi64(units.raw)};
#else
        return hn::ConvertTo(Integers(), hn::Round(units));
#endif
    }

    static HWY_INLINE void add_whole(hn::Vec<Integers> units, int64_t* place, int64_t left) {
        store_lanes(Integers(), hn::Add(load_lanes(Integers(), place, left), units), place, left);
    }

    // The size below which a value's units fit into 62 bits.
    [[nodiscard]] static float safe_size(const SumView& sum) {
        constexpr double kLargestFloat = std::numeric_limits<float>::max();
        return sum.kind == SumKind::exact ? static_cast<float>(std::min(0x1p61 / sum.per_unit, kLargestFloat))
                                          : static_cast<float>(kLargestFloat);
    }

    static constexpr int64_t kStep = HWY_LANES(double);

    SumView sum_;
    float safe_ = 0;
    bool finite_ = true;
    DoubleVector squares_ = hn::Zero(Doubles());
    DoubleVector other_squares_ = hn::Zero(Doubles());
    FloatVector largest_ = hn::Zero(Floats());
};

// Joins what is known of another part of the same tensor and grain.
inline void add_record(GrainRecord& record, const GrainRecord& part) {
    record.squares += part.squares;
    record.largest = std::max(record.largest, part.largest);
    record.not_finite = record.not_finite || part.not_finite;
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
