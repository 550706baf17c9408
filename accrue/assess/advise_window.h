#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "accrue/train/settings.h"

namespace accrue {

// The noise scale of a run, in tokens: the window at which noise and signal of the gradient are equal.
struct NoiseScale {
    int64_t steps = 0;             // that were looked at, the last of the run
    int64_t below_noise = 0;       // of them, those in which the signal could not be told from the noise
    std::optional<double> tokens;  // the median; none = more than half of them could not tell
};

// From the metrics of a run folder. A median, because single steps err by large factors; a step without signal counts
// as one with a larger noise scale than all others. Errors: no such folder, no metrics, no step with two grains.
[[nodiscard]] NoiseScale read_noise_scale(const std::filesystem::path& run_folder);

// What the size of a window must be weighed against.
struct WindowFacts {
    double tokens = 0;         // of a window
    double sample_tokens = 0;  // mean, counted
    double seconds = 0;        // of a window
    double fixed_seconds = 0;  // of that, once a window: update, synchronisation
    std::optional<NoiseScale> noise = {};
};

// The model of McCandlish et al. 2018 (equation 2.11): with a window of B tokens and a noise scale N, a loss takes
// 1 + N/B times the fewest updates and 1 + B/N times the fewest tokens, if the rate follows the window.
// The time to the same loss with a window of `tokens`, as a factor of the time with the present one.
[[nodiscard]] double time_factor(const WindowFacts& facts, double noise_tokens, double tokens);
// Tokens and updates to the same loss, in the same way.
[[nodiscard]] double tokens_factor(double noise_tokens, double from_tokens, double to_tokens);
[[nodiscard]] double updates_factor(double noise_tokens, double from_tokens, double to_tokens);

// A window of another size with the settings that belong to it.
struct OtherWindow {
    int64_t samples = 0;
    double tokens = 0;
    double rate = 0;
    double beta2 = 0;  // with the same memory in tokens
};

enum class WindowSizing { unknown, too_large, about_right, larger_pays };
// As a key: "too_large".
[[nodiscard]] std::string_view name_of(WindowSizing sizing);

// Whether a window is worth having.
struct WindowAdvice {
    WindowSizing sizing = WindowSizing::unknown;
    double rate = 0;             // peak, after scaling to the present window
    double half_life_steps = 0;  // of the second moment; 0 = the optimizer has none
    double half_life_tokens = 0;
    bool rate_is_linear = false;  // how the rate should follow the window: linear for SGD, square root for Adam
    OtherWindow half;
    OtherWindow twice;
    std::optional<OtherWindow> better;  // where it is too large, or a larger one pays
    double better_time = 1;             // to the same loss, as a factor
    double better_tokens = 1;
    double better_updates = 1;
};

[[nodiscard]] WindowAdvice advise_window(const Settings::Optimizer& optimizer, double samples,
                                         const WindowFacts& facts);

}  // namespace accrue
