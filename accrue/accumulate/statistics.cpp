#include "accrue/accumulate/statistics.h"

#include <cmath>
#include <vector>

namespace accrue {

GrainStatistics grain_statistics(const GrainLedger& ledger, double mean_gradient_norm) {
    std::vector<double> norms;
    double weighted_squares = 0;  // sum over grains of tokens * |gradient per token|^2
    for (int64_t number = 0; number < ledger.grains(); ++number) {
        const auto tokens = static_cast<double>(ledger.grain(number).counted_tokens);
        if (tokens > 0) {
            const double squares = ledger.squares(number);
            norms.push_back(std::sqrt(squares) / tokens);
            weighted_squares += squares / tokens;
        }
    }
    GrainStatistics result;
    if (norms.empty()) {
        return result;
    }
    const auto count = static_cast<double>(norms.size());
    for (const double norm : norms) {
        result.norm_mean += norm / count;
    }
    if (norms.size() < 2) {
        return result;
    }
    for (const double norm : norms) {
        const double difference = norm - result.norm_mean;
        result.norm_variance += difference * difference / (count - 1);
    }
    // With per-token covariance S and true gradient G: E[weighted_squares] = tokens |G|^2 + count tr S, and
    // E[tokens |mean|^2] = tokens |G|^2 + tr S.
    const auto tokens = static_cast<double>(ledger.counted_tokens());
    const double mean_squares = mean_gradient_norm * mean_gradient_norm;
    const double trace = (weighted_squares - tokens * mean_squares) / (count - 1);
    const double signal = mean_squares - trace / tokens;
    if (signal > 0 && trace >= 0) {
        result.noise_scale = trace / signal;
    }
    return result;
}

}  // namespace accrue
