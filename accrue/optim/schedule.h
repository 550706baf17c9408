#pragma once

#include <cstdint>

namespace accrue {

// The learning rate over a run, counted in optimizer steps.
struct Schedule {
    enum class Kind { constant, linear, cosine, wsd };
    Kind kind = Kind::cosine;
    int64_t steps = 1;
    int64_t warmup_steps = 0;
    double final_fraction = 0;
    double decay_fraction = 0.2;  // wsd: the share of the run in which the rate falls

    // What the peak rate is multiplied by in a step, counted from 0. Warm-up rises linearly and reaches 1 in its last
    // step; linear and cosine then fall towards final_fraction, wsd stays and falls linearly at the end.
    [[nodiscard]] double factor(int64_t step) const;
};

// How the rate follows the window's size.
enum class RateRule { none, sqrt, linear };

// The rate for windows of `samples` when `rate` was tuned for windows of `tuned_samples` (0 = take it as it is).
[[nodiscard]] double scaled_rate(double rate, RateRule rule, double samples, int64_t tuned_samples);

// The second-moment decay at which half of the memory is `half_life_tokens` old, for a window of so many tokens.
[[nodiscard]] double beta2_for_half_life(double half_life_tokens, double window_tokens);

// What a gradient of that norm is multiplied by so that its norm is at most `limit`; limit 0 = never clipped.
[[nodiscard]] double clip_factor(double norm, double limit);

}  // namespace accrue
