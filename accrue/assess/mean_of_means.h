#pragma once

#include <cstdint>
#include <vector>

#include "accrue/assess/window_lab.h"

namespace accrue {

// What a window's gradient and loss would be if each micro-batch were averaged by itself and these means were averaged
// without weights, as most training programs do. Right only if all micro-batches count the same tokens.
struct MeanOfMeans {
    std::vector<int64_t> tokens;  // counted by each micro-batch
    double loss = 0;
    double loss_error = 0;      // relative to the true mean
    double gradient_error = 0;  // |mean of means - mean| / |mean|; NaN if a micro-batch counts nothing

    [[nodiscard]] bool even() const;
};

// For a window cut into micro-batches of so many samples each, one result for each cut. `whole` is the same window as
// computed rightly.
[[nodiscard]] std::vector<MeanOfMeans> means_of_means(WindowLab& lab, const std::vector<int64_t>& micro_batch_samples,
                                                      const Computed& whole);

}  // namespace accrue
