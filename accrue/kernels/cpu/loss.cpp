#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/loss.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// The largest of a row. NaN is not found here; it shows in the sum of exponentials.
HWY_INLINE float largest_of(const float* row, int64_t count) {
    const Floats d;
    const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto even = lowest;
    auto odd = lowest;
    int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
        even = hn::Max(hn::LoadU(d, row + i), even);
        odd = hn::Max(hn::LoadU(d, row + i + kLanes), odd);
    }
    for (; i < count; i += kLanes) {
        const auto present = hn::FirstN(d, static_cast<size_t>(std::min(kLanes, count - i)));
        even = hn::Max(hn::IfThenElse(present, load(row + i, count - i), lowest), even);
    }
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
}

// The sum of e^(x - largest), in fp32 over stretches of a row and in double over them: a row is up to 50,000 wide.
HWY_INLINE double sum_of_exponentials(const float* row, int64_t count, float largest) {
    constexpr int64_t kStretch = 2048;
    const auto top = hn::Set(Floats(), largest);
    double sum = 0;
    for (int64_t first = 0; first < count; first += kStretch) {
        sum += sum_over(std::min(kStretch, count - first), [&](int64_t i, int64_t left) HWY_ATTR {
            return exponential_below_zero(hn::Sub(load(row + first + i, left), top));
        });
    }
    return sum;
}

// The logits may lie where d_logits go: each vector is read before it is written, and element c of a narrower type
// never reaches a logit behind c.
template <class T>
void write_row_gradient(const float* logits, int64_t count, int32_t target, float largest, double sum, T* d_logits) {
    const auto top = hn::Set(Floats(), largest);
    const auto scale = hn::Set(Floats(), static_cast<float>(1 / sum));
    const auto probability = [&](FloatVector x)
                                 HWY_ATTR { return hn::Mul(exponential_below_zero(hn::Sub(x, top)), scale); };
    const auto at_target = probability(hn::Set(Floats(), logits[target]));
    for_lanes(count, [&](int64_t i, int64_t left)
                         HWY_ATTR { store(probability(load(logits + i, left)), d_logits + i, left); });
    store(hn::Sub(at_target, hn::Set(Floats(), 1)), d_logits + target, 1);
}

// The row's loss; its gradient goes to d_logits, which may be nullptr.
template <class T>
float cross_entropy_row(const float* logits, int64_t count, int32_t target, T* d_logits) {
    if (target < 0) {
        if (d_logits != nullptr) {
            for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR { store(hn::Zero(Floats()), d_logits + i, left); });
        }
        return 0;
    }
    const float largest = largest_of(logits, count);
    const double sum = sum_of_exponentials(logits, count, largest);
    const auto loss = static_cast<float>(largest + std::log(sum) - logits[target]);
    if (d_logits != nullptr) {
        write_row_gradient(logits, count, target, largest, sum, d_logits);
    }
    return loss;
}

void cross_entropy(Pool& pool, View<float> logits, View<const int32_t> targets, View<float> losses, AnyView d_logits) {
    with_type(d_logits, [&](auto typed) HWY_ATTR {
        for_ranges(pool, logits.rows, 4 * logits.columns, [&](int64_t first, int64_t last) HWY_ATTR {
            for (int64_t r = first; r < last; ++r) {
                losses.data[r] = cross_entropy_row(logits.row(r), logits.columns, targets.data[r],
                                                   typed.empty() ? nullptr : typed.row(r));
            }
        });
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

void cross_entropy(const Context& context, View<float> logits, View<const int32_t> targets, View<float> losses,
                   AnyView d_logits) {
    pick(context.set, N_SCALAR::cross_entropy, N_AVX2::cross_entropy, N_AVX3::cross_entropy)(context.pool, logits,
                                                                                             targets, losses, d_logits);
}

}  // namespace accrue::cpu
#endif
