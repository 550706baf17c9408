#include "accrue/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace accrue {

double Schedule::factor(int64_t step) const {
    if (step < warmup_steps) {
        return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    }
    // 0 right after warm-up, 1 when the run is over.
    const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                              static_cast<double>(std::max<int64_t>(1, steps - warmup_steps)));
    switch (kind) {
        case Kind::constant:
            return 1.0;
        case Kind::linear:
            return 1.0 - (1.0 - final_fraction) * progress;
        case Kind::cosine:
            return final_fraction + (1.0 - final_fraction) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
        case Kind::wsd: {
            const double decay_steps = std::max(1.0, decay_fraction * static_cast<double>(steps));
            const double into_decay = static_cast<double>(step) - (static_cast<double>(steps) - decay_steps);
            return into_decay <= 0 ? 1.0 : 1.0 - (1.0 - final_fraction) * std::min(1.0, into_decay / decay_steps);
        }
    }
    return 1.0;
}

double scaled_rate(double rate, RateRule rule, double samples, int64_t tuned_samples) {
    if (tuned_samples == 0 || rule == RateRule::none) {
        return rate;
    }
    const double ratio = samples / static_cast<double>(tuned_samples);
    return rate * (rule == RateRule::sqrt ? std::sqrt(ratio) : ratio);
}

double beta2_for_half_life(double half_life_tokens, double window_tokens) {
    return std::exp2(-window_tokens / half_life_tokens);
}

double clip_factor(double norm, double limit) {
    return limit > 0 && norm > limit ? limit / norm : 1.0;
}

}  // namespace accrue
