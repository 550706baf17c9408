#include <algorithm>
#include <cmath>

#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {

void ReferenceKernels::cross_entropy(View<float> logits, View<const int32_t> targets, View<float> losses,
                                     AnyView d_logits) {
    for (int64_t r = 0; r < logits.rows; ++r) {
        const float* row = logits.row(r);
        const int32_t target = targets.data[r];
        const double largest = *std::max_element(row, row + logits.columns);
        double sum = 0;
        for (int64_t c = 0; c < logits.columns; ++c) {
            sum += std::exp(row[c] - largest);
        }
        const double log_sum = largest + std::log(sum);
        losses.data[r] = target < 0 ? 0 : static_cast<float>(log_sum - row[target]);
        if (d_logits.empty()) {
            continue;
        }
        for (int64_t c = 0; c < logits.columns; ++c) {
            store(d_logits, r, c, target < 0 ? 0 : std::exp(row[c] - log_sum) - (c == target ? 1 : 0));
        }
    }
}

}  // namespace accrue
