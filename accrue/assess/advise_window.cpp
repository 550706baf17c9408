#include "accrue/assess/advise_window.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "accrue/base/error.h"
#include "accrue/observe/metrics_rows.h"
#include "accrue/optim/schedule.h"
#include "accrue/train/run_folder.h"

namespace accrue {
namespace {

// Of a run's steps, the last quarter, but so many if there are: the noise scale grows while a run learns.
constexpr size_t kFewestSteps = 20;

// A window is far above the noise scale from here on: it takes 1.5 times the tokens of a window at the noise scale.
constexpr double kFarAbove = 2;
// Twice the window costs at most so many times the tokens: it is far below the noise scale.
constexpr double kNearlyFree = 1.1;
// Less is not worth another tuning of the rate.
constexpr double kWorthwhile = 0.9;

// Where the signal cannot be told from the noise, the noise scale is larger than any other.
constexpr double kNoSignal = std::numeric_limits<double>::infinity();

// Of a step of two grains or more that was not skipped.
std::optional<double> noise_of(const MetricsRow& row) {
    const bool counts = row.grains >= 2 && !(row.skipped > 0);
    return counts ? std::optional(std::isnan(row.noise_scale) ? kNoSignal : row.noise_scale) : std::nullopt;
}

std::vector<double> last_steps(std::vector<double> values) {
    const size_t wanted = std::min(values.size(), std::max(kFewestSteps, values.size() / 4));
    values.erase(values.begin(), values.end() - static_cast<int64_t>(wanted));
    return values;
}

double rate_factor(const Settings::Optimizer& optimizer, double factor) {
    return optimizer.name == OptimizerKind::sgd ? factor : std::sqrt(factor);
}

// With a window given in tokens, samples are those of full length.
double present_rate(const Settings::Optimizer& optimizer, double samples) {
    return scaled_rate(optimizer.rate, optimizer.rate_rule, samples, optimizer.rate_samples);
}

OtherWindow other_window(const Settings::Optimizer& optimizer, const WindowFacts& facts, const WindowAdvice& advice,
                         double tokens) {
    OtherWindow window;
    window.samples = std::max<int64_t>(1, std::llround(tokens / facts.sample_tokens));
    window.tokens = static_cast<double>(window.samples) * facts.sample_tokens;
    window.rate = advice.rate * rate_factor(optimizer, window.tokens / facts.tokens);
    window.beta2 = advice.half_life_tokens > 0 ? beta2_for_half_life(advice.half_life_tokens, window.tokens) : 0;
    return window;
}

// The time to a loss is least at the geometric mean of the noise scale and of the tokens that take as long as what is
// paid once a window. At the noise scale, or above it where that is the least.
double best_tokens(const WindowFacts& facts, double noise) {
    const double seconds_a_token = (facts.seconds - facts.fixed_seconds) / facts.tokens;
    return std::max(noise, std::sqrt(noise * facts.fixed_seconds / seconds_a_token));
}

void weigh(WindowAdvice& advice, const Settings::Optimizer& optimizer, const WindowFacts& facts, double noise) {
    const auto take = [&](double tokens, WindowSizing sizing) {
        advice.sizing = sizing;
        advice.better = other_window(optimizer, facts, advice, tokens);
        advice.better_time = time_factor(facts, noise, advice.better->tokens);
        advice.better_tokens = tokens_factor(noise, facts.tokens, advice.better->tokens);
        advice.better_updates = updates_factor(noise, facts.tokens, advice.better->tokens);
    };
    advice.sizing = WindowSizing::about_right;
    const double best = best_tokens(facts, noise);
    const double twice = 2 * facts.tokens;
    if (facts.tokens >= kFarAbove * noise && best < facts.tokens && time_factor(facts, noise, best) <= kWorthwhile) {
        take(best, WindowSizing::too_large);
    } else if (tokens_factor(noise, facts.tokens, twice) <= kNearlyFree ||
               time_factor(facts, noise, twice) <= kWorthwhile) {
        take(twice, WindowSizing::larger_pays);
    }
}

}  // namespace

NoiseScale read_noise_scale(const std::filesystem::path& run_folder) {
    const RunFolder folder{run_folder};
    if (!std::filesystem::is_directory(run_folder)) {
        throw Error(cat("--run ", run_folder.string(), ": there is no such folder. Give the folder of a run."));
    }
    std::vector<double> values;
    const MetricsReading reading = read_metrics(folder.metrics(), [&](const MetricsRow& row) {
        if (const auto noise = noise_of(row)) {
            values.push_back(*noise);
        }
    });
    if (!reading.is_whole || reading.rows == 0) {
        throw Error(cat("--run ", run_folder.string(), ": ", folder.metrics().string(),
                        reading.is_whole ? " holds no step yet" : " cannot be read",
                        ". Give the folder of a run that has taken some steps."));
    }
    values = last_steps(std::move(values));
    if (values.empty()) {
        throw Error(cat("--run ", run_folder.string(), ": none of its ", reading.rows,
                        " steps has two grains, so none says how much they agree. Give a run with a smaller "
                        "window.grain_samples or a larger window."));
    }
    const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    const double median = *middle;
    return {.steps = std::ssize(values),
            .below_noise = std::count(values.begin(), values.end(), kNoSignal),
            .tokens = median == kNoSignal ? std::nullopt : std::optional(median)};
}

double tokens_factor(double noise_tokens, double from_tokens, double to_tokens) {
    return (noise_tokens + to_tokens) / (noise_tokens + from_tokens);
}

double updates_factor(double noise_tokens, double from_tokens, double to_tokens) {
    return tokens_factor(noise_tokens, from_tokens, to_tokens) * from_tokens / to_tokens;
}

double time_factor(const WindowFacts& facts, double noise_tokens, double tokens) {
    const double in_proportion = (facts.seconds - facts.fixed_seconds) * tokens / facts.tokens;
    return updates_factor(noise_tokens, facts.tokens, tokens) * (in_proportion + facts.fixed_seconds) / facts.seconds;
}

std::string_view name_of(WindowSizing sizing) {
    switch (sizing) {
        case WindowSizing::unknown:
            return "unknown";
        case WindowSizing::too_large:
            return "too_large";
        case WindowSizing::about_right:
            return "about_right";
        case WindowSizing::larger_pays:
            return "larger_pays";
    }
    return "";
}

WindowAdvice advise_window(const Settings::Optimizer& optimizer, double samples, const WindowFacts& facts) {
    WindowAdvice advice;
    advice.rate = present_rate(optimizer, samples);
    advice.rate_is_linear = optimizer.name == OptimizerKind::sgd;
    if (optimizer.name != OptimizerKind::sgd) {
        const auto given = static_cast<double>(optimizer.beta2_half_life_tokens);
        advice.half_life_tokens = given > 0             ? given
                                  : optimizer.beta2 > 0 ? facts.tokens * -1 / std::log2(optimizer.beta2)
                                                        : 0;
        advice.half_life_steps = advice.half_life_tokens / facts.tokens;
    }
    advice.half = other_window(optimizer, facts, advice, facts.tokens / 2);
    advice.twice = other_window(optimizer, facts, advice, facts.tokens * 2);
    if (!facts.noise) {
        return advice;
    }
    if (facts.noise->tokens) {
        weigh(advice, optimizer, facts, std::max(1.0, *facts.noise->tokens));
    } else {
        advice.sizing = WindowSizing::larger_pays;
        advice.better = advice.twice;
    }
    return advice;
}

}  // namespace accrue
