#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/loss.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <hwy/cache_control.h>

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

// e^(x - largest) for the logits of a row, at least about 10^-38.
class Exponentials {
public:
    explicit Exponentials(float largest) : largest_(hn::Set(Floats(), largest)) {}

    HWY_INLINE FloatVector of(FloatVector x) const {
        return power_of_two_below_zero(hn::Mul(hn::Sub(x, largest_), hn::Set(Floats(), kLog2E)));
    }

private:
    FloatVector largest_;
};

// The sum of the exponentials, in fp32 over stretches of a row and in double over them: a row is up to 50,000 wide.
HWY_INLINE double sum_of(const Exponentials& exponentials, const float* row, int64_t count) {
    constexpr int64_t kStretch = 2048;
    double sum = 0;
    for (int64_t first = 0; first < count; first += kStretch) {
        sum += sum_over(std::min(kStretch, count - first),
                        [&](int64_t i, int64_t left) HWY_ATTR { return exponentials.of(load(row + first + i, left)); });
    }
    return sum;
}

// The logits may lie where d_logits go: each vector is read before it is written, and element c of a narrower type
// never reaches a logit behind c. Meanwhile the row behind comes into the cache: the sum above waits for memory
// otherwise.
template <class T>
void write_row_gradient(const float* logits, int64_t count, int32_t target, const Exponentials& exponentials,
                        double sum, const float* next_row, T* d_logits) {
    const auto scale = hn::Set(Floats(), static_cast<float>(1 / sum));
    const auto probability = [&](FloatVector x) HWY_ATTR { return hn::Mul(exponentials.of(x), scale); };
    const auto at_target = probability(hn::Set(Floats(), logits[target]));
    for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR {
        hwy::Prefetch(next_row + i);
        store(probability(load(logits + i, left)), d_logits + i, left);
    });
    store(hn::Sub(at_target, hn::Set(Floats(), 1)), d_logits + target, 1);
}

// The row's loss; its gradient goes to d_logits, which may be nullptr.
template <class T>
float cross_entropy_row(const float* logits, int64_t count, int32_t target, const float* next_row, T* d_logits) {
    if (target < 0) {
        if (d_logits != nullptr) {
            for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR { store(hn::Zero(Floats()), d_logits + i, left); });
        }
        return 0;
    }
    const float largest = largest_of(logits, count);
    const Exponentials exponentials(largest);
    const double sum = sum_of(exponentials, logits, count);
    const auto loss = static_cast<float>(largest + std::log(sum) - logits[target]);
    if (d_logits != nullptr) {
        write_row_gradient(logits, count, target, exponentials, sum, next_row, d_logits);
    }
    return loss;
}

void cross_entropy(const Context& context, View<float> logits, View<const int32_t> targets, View<float> losses,
                   AnyView d_logits) {
    // Several rows for a thread, one of which is fetched while another is worked on.
    const int64_t together = std::max<int64_t>(1, logits.rows / (8 * context.pool.threads()));
    with_output_type(context.set, d_logits, [&](auto typed) HWY_ATTR {
        context.pool.run((logits.rows + together - 1) / together, [&](int64_t item, int) HWY_ATTR {
            const int64_t last = std::min(logits.rows, (item + 1) * together) - 1;
            for (int64_t r = item * together; r <= last; ++r) {
                losses.data[r] =
                    cross_entropy_row(logits.row(r), logits.columns, targets.data[r], logits.row(std::min(r + 1, last)),
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
    pick(context.set, N_SCALAR::cross_entropy, N_AVX2::cross_entropy, N_AVX3::cross_entropy)(context, logits, targets,
                                                                                             losses, d_logits);
}

}  // namespace accrue::cpu
#endif
