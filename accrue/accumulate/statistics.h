#pragma once

#include <optional>

#include "accrue/accumulate/ledger.h"

namespace accrue {

// How much the grains of a window agree. Each grain's gradient is taken per counted token.
struct GrainStatistics {
    double norm_mean = 0;
    double norm_variance = 0;  // over grains, divided by their number less one; 0 for one grain
    // The window, in tokens, at which noise and signal are equal: trace of the covariance over the squared norm of the
    // true gradient (McCandlish et al. 2018, equation 2.8), estimated without bias for grains of any sizes. Nothing
    // with fewer than two grains, or when the estimate of the signal is not positive.
    std::optional<double> noise_scale;
};

// From the grains' squared norms and the norm of the window's mean gradient.
[[nodiscard]] GrainStatistics grain_statistics(const GrainLedger& ledger, double mean_gradient_norm);

}  // namespace accrue
