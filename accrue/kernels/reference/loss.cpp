#include <algorithm>
#include <cmath>
#include <numeric>

#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {

void compute(const op::CrossEntropy& call) {
    for (int64_t r = 0; r < call.logits.rows; ++r) {
        const auto logit = [&](int64_t c) { return value(call.logits, r, c); };
        const int32_t target = call.targets.data[r];
        double largest = logit(0);
        for (int64_t c = 1; c < call.logits.columns; ++c) {
            largest = std::max(largest, logit(c));
        }
        double sum = 0;
        for (int64_t c = 0; c < call.logits.columns; ++c) {
            sum += std::exp(logit(c) - largest);
        }
        const double log_sum = largest + std::log(sum);
        call.losses.data[r] = target < 0 ? 0 : static_cast<float>(log_sum - logit(target));
        if (call.d_logits.empty()) {
            continue;
        }
        for (int64_t c = 0; c < call.logits.columns; ++c) {
            const double d_logit = target < 0 ? 0 : std::exp(logit(c) - log_sum) - (c == target ? 1 : 0);
            store(call.d_logits, r, c, d_logit * static_cast<double>(call.scale));
        }
    }
}

void compute(const op::GrainLosses& call) {
    for (size_t grain = 0; grain < call.grains.size(); ++grain) {
        const auto& [first, rows] = call.grains[grain];
        call.sums.data[grain] = std::accumulate(call.losses.data + first, call.losses.data + first + rows, 0.0);
    }
}

}  // namespace accrue::reference
