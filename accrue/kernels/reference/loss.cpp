#include <algorithm>
#include <cmath>
#include <numeric>

#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {

void compute(const op::CrossEntropy& call) {
    for (int64_t r = 0; r < call.logits.rows; ++r) {
        const float* row = call.logits.row(r);
        const int32_t target = call.targets.data[r];
        const double largest = *std::max_element(row, row + call.logits.columns);
        double sum = 0;
        for (int64_t c = 0; c < call.logits.columns; ++c) {
            sum += std::exp(row[c] - largest);
        }
        const double log_sum = largest + std::log(sum);
        call.losses.data[r] = target < 0 ? 0 : static_cast<float>(log_sum - row[target]);
        if (call.d_logits.empty()) {
            continue;
        }
        for (int64_t c = 0; c < call.logits.columns; ++c) {
            store(call.d_logits, r, c, target < 0 ? 0 : std::exp(row[c] - log_sum) - (c == target ? 1 : 0));
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
