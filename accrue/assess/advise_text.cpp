#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "accrue/assess/advise.h"
#include "accrue/assess/text_layout.h"
#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

constexpr size_t kIndent = 2;
// Smaller differences are not worth a change, nor can a busy machine tell them from none.
constexpr double kNoticeable = 0.03;

// From here on what is paid once a window is the first thing to save.
constexpr double kLargeUpdate = 0.25;

std::string paragraph(std::string_view name, const std::string& text) {
    return wrapped(fmt::format("{}: {}", name, text), kIndent);
}

std::string answer_text(const Advice& advice) {
    const std::string share = percent(advice.judgement.share);
    switch (advice.judgement.bound) {
        case Bound::compute:
            return fmt::format("Bound by compute: arithmetic takes {} of a window's time.\n", share);
        case Bound::memory_bandwidth:
            return fmt::format("Bound by memory bandwidth: passes over memory take {} of the time.\n", share);
        case Bound::overhead:
            return fmt::format("Bound by overhead: neither arithmetic nor memory explains {} of the time.\n", share);
        case Bound::memory_capacity:
            return fmt::format("Bound by memory capacity: {} of the time is lost for want of memory.\n", share);
        case Bound::data:
            return fmt::format("Bound by data: {} of a window's time waits for the loader.\n", share);
        case Bound::network:
            return fmt::format("Bound by the network: {} of a window's time adds up sums of workers.\n", share);
    }
    return "";
}

std::string verdict_text(const Trial& trial, const std::string& gain) {
    const std::string& change = trial.change.text;
    if (trial.least_gain >= kNoticeable) {
        return fmt::format("Set {}: {} tokens/s (measured).", change, gain);
    }
    const bool is_promising = std::max(trial.measured_gain, trial.predicted_gain) >= kNoticeable;
    if (!is_promising || trial.most_gain < kNoticeable) {
        return fmt::format("Keep the settings: the best other choice, {}, gives {} tokens/s (measured).", change, gain);
    }
    return fmt::format(
        "{} may help: predicted {} tokens/s, measured {} to {}. Ask again when the machine is less busy.", change,
        signed_percent(trial.predicted_gain), signed_percent(trial.least_gain), signed_percent(trial.most_gain));
}

constexpr const char* kMoreWorkACall =
    " The calls are small: more work a call helps, by more grains a micro-batch, fewer threads (both keep the result), "
    "larger "
    "grains (window.grain_samples) or a larger model (both change it).";
constexpr const char* kMoreWorkACallOfGpu =
    " The calls are small for a GPU: more work a call helps, by more grains a micro-batch (which keeps the result), "
    "larger "
    "grains (window.grain_samples) or a larger model (both change it).";

bool is_gpu(const Advice& advice) {
    return advice.device.kind == DeviceKind::cuda;
}

std::string more_work_text(const Advice& advice) {
    return advice.judgement.bound != Bound::overhead ? "" : is_gpu(advice) ? kMoreWorkACallOfGpu : kMoreWorkACall;
}

// The bound says where to look; what was tried says whether it helps.
std::string helps_text(const Advice& advice) {
    if (!advice.trial) {
        return cat("There is nothing else to choose.", more_work_text(advice));
    }
    const Trial& trial = *advice.trial;
    const std::string gain = signed_percent(trial.measured_gain);
    const double once = advice.times.fixed_seconds() / advice.times.seconds();
    switch (advice.judgement.bound) {
        case Bound::data:
            return fmt::format(
                "Only faster loading helps, by up to {} tokens/s (measured, with batches already in "
                "memory): a faster disk, or more processors for the loader.",
                gain);
        case Bound::network:
            return fmt::format(
                "Synchronise less often: with twice the window {} tokens/s (measured; it changes the "
                "result, see the rate below).",
                gain);
        case Bound::memory_bandwidth:
            if (once >= kLargeUpdate) {
                return fmt::format(
                    "The update takes {} of the time, however short the window is: a larger window pays "
                    "it less often (it changes the result, see the rate below).",
                    percent(once));
            }
            [[fallthrough]];
        default:
            return verdict_text(trial, gain) + more_work_text(advice);
    }
}

std::string time_line(std::string_view name, double seconds, double all, const std::string& note = "") {
    return fmt::format("  {:<22}{:>8.3f} s{:>6}{}{}\n", name, seconds, percent(seconds / all),
                       note.empty() ? "" : "   ", note);
}

std::string reached(double rate, double ceiling, std::string_view unit) {
    return fmt::format("{:.3g} of {:.3g} {}", 1e-9 * rate, 1e-9 * ceiling, unit);
}

double mean_call_ms(const WindowTimes& times) {
    return times.calls > 0 ? 1e3 * (times.compute_seconds() - times.ordering_seconds) / times.calls : 0;
}

std::string times_text(const Advice& advice) {
    const WindowTimes& times = advice.times;
    const double all = times.seconds();
    std::string network = "one worker";
    if (times.synchronisation_seconds > 0) {
        network = fmt::format("{} in and out", format_bytes(static_cast<int64_t>(times.synchronisation_bytes)));
    }
    return fmt::format("where the time goes: {:.3f} s for a window of {} tokens, {:.0f} tokens/s\n", all,
                       count_text(times.tokens), times.tokens_per_second()) +
           time_line("arithmetic", advice.split.arithmetic_seconds, all,
                     reached(advice.reached_flops, advice.ceilings.flops, "GFLOP/s")) +
           time_line("passes over memory", advice.split.streaming_seconds, all,
                     reached(advice.reached_bytes, advice.ceilings.bytes, "GB/s")) +
           time_line("overhead", advice.split.overhead_seconds, all,
                     fmt::format("{} kernel calls of {:.3g} ms", count_text(times.calls), mean_call_ms(times))) +
           time_line("waiting for data", times.data_wait_seconds, all) +
           time_line("synchronising", times.synchronisation_seconds, all, network) +
           time_line("once a window", times.fixed_seconds(), all, "of the above: update, synchronisation") +
           wrapped(fmt::format("measured on windows of {} samples; {} of {}{}, {}, {}", advice.measured_samples,
                               format_bytes(advice.peak_bytes), format_bytes(advice.budget.bytes),
                               is_gpu(advice) ? " of the GPU's memory" : "", text_of(advice.plan),
                               is_gpu(advice) ? text_of(advice.device) : fmt::format("{} thread(s)", advice.threads)),
                   kIndent);
}

std::string change_line(const Advice& advice, const Change& change) {
    const bool is_other = change.result == Change::Result::another;
    const bool fits = change.peak_bytes <= advice.budget.bytes;
    return fmt::format("  {:<34}{:>8.0f}{:>8}{:>12}{}\n", change.text, change.tokens_per_second,
                       signed_percent(change.tokens_per_second / advice.times.tokens_per_second() - 1),
                       format_bytes(change.peak_bytes), is_other ? "  other result" : (fits ? "" : "  does not fit"));
}

std::string changes_text(const Advice& advice) {
    std::string text = fmt::format("{:<36}{:>8}{:>20}\n", "what a change would do (predicted)", "tokens/s", "memory");
    const auto now =
        static_cast<int64_t>(std::ceil(advice.window_grains / static_cast<double>(advice.plan.micro_batch_grains)));
    text += fmt::format("  {:<34}{:>8.0f}{:>20}\n",
                        fmt::format("now: {} micro-batches x {} grains", now, advice.plan.micro_batch_grains),
                        advice.times.tokens_per_second(), format_bytes(advice.peak_bytes));
    for (const Change& change : advice.changes) {
        text += change_line(advice, change);
    }
    if (advice.trial) {
        const Trial& trial = *advice.trial;
        text += wrapped(
            fmt::format("tried, in turns with the present settings: {}: predicted {}, measured {} ({} to {}), at best "
                        "{:.0f} tokens/s against {:.0f}",
                        trial.change.text, signed_percent(trial.predicted_gain), signed_percent(trial.measured_gain),
                        signed_percent(trial.least_gain), signed_percent(trial.most_gain), trial.tokens_per_second,
                        trial.present_tokens_per_second),
            kIndent);
    }
    return text;
}

std::string other_window_text(const Advice& advice, const OtherWindow& other) {
    const std::string size = advice.window_in_tokens ? fmt::format("window.tokens = {:.0f}", other.tokens)
                                                     : fmt::format("window.samples = {}", other.samples);
    return fmt::format(
        "{}, optimizer.rate = {:.3g}{}", size, other.rate,
        advice.window.half_life_tokens > 0 ? fmt::format(", optimizer.beta2 = {:.4g}", other.beta2) : "");
}

std::string too_large_text(const Advice& advice) {
    const WindowAdvice& window = advice.window;
    const double noise = *advice.window_facts.noise->tokens;
    return fmt::format(
        "You would learn faster with a smaller window: {} tokens are {:.1f} times the noise scale of {}. With {} the "
        "same loss takes {} of the tokens and {} of the time (predicted).",
        count_text(advice.times.tokens), advice.times.tokens / noise, count_text(noise),
        other_window_text(advice, *window.better), percent(window.better_tokens), percent(window.better_time));
}

std::string larger_pays_text(const Advice& advice) {
    const WindowAdvice& window = advice.window;
    const NoiseScale& noise = *advice.window_facts.noise;
    if (!noise.tokens) {
        return fmt::format(
            "A larger window would still pay: in {} of the last {} steps of that run the noise hid the signal, so that "
            "the noise scale is above {} tokens. Twice the window is {}.",
            noise.below_noise, noise.steps, count_text(advice.times.tokens), other_window_text(advice, *window.better));
    }
    return fmt::format(
        "A larger window would still pay: {} tokens are {:.2f} of the noise scale of {}. With {} the same loss takes "
        "{} of the updates for {} of the tokens; on this machine alone {} of the time (predicted).",
        count_text(advice.times.tokens), advice.times.tokens / *noise.tokens, count_text(*noise.tokens),
        other_window_text(advice, *window.better), percent(window.better_updates), percent(window.better_tokens),
        percent(window.better_time));
}

std::string sizing_text(const Advice& advice) {
    switch (advice.window.sizing) {
        case WindowSizing::too_large:
            return too_large_text(advice);
        case WindowSizing::larger_pays:
            return larger_pays_text(advice);
        case WindowSizing::about_right:
            return fmt::format("The window is about right: {} tokens are {:.2f} times the noise scale of {}.",
                               count_text(advice.times.tokens),
                               advice.times.tokens / *advice.window_facts.noise->tokens,
                               count_text(*advice.window_facts.noise->tokens));
        case WindowSizing::unknown:
            break;
    }
    return "Whether it is too large only a run can tell: give one with --run FOLDER for its noise scale.";
}

std::string rate_text(const Advice& advice) {
    const WindowAdvice& window = advice.window;
    std::string text =
        fmt::format("it follows the window {}: {:.3g} now, {:.3g} for half the window, {:.3g} for twice.",
                    window.rate_is_linear ? "in proportion (SGD)" : "by its square root (Adam)", window.rate,
                    window.half.rate, window.twice.rate);
    const RateRule rule = window.rate_is_linear ? RateRule::linear : RateRule::sqrt;
    if (advice.optimizer.rate_samples == 0) {
        text += fmt::format(" optimizer.rate_samples = {:.0f} with rate_rule = \"{}\" does that.",
                            advice.window_samples, word_of(rule));
    } else if (advice.optimizer.rate_rule != rule) {
        text += fmt::format(" Your optimizer.rate_rule is \"{}\": set \"{}\".", word_of(advice.optimizer.rate_rule),
                            word_of(rule));
    }
    return text;
}

std::string half_life_text(const Advice& advice) {
    const WindowAdvice& window = advice.window;
    std::string text = fmt::format("half of it is {:.1f} updates or {} tokens old.", window.half_life_steps,
                                   count_text(window.half_life_tokens));
    if (advice.optimizer.beta2_half_life_tokens > 0) {
        return text + " It stays so when the window changes.";
    }
    return text + fmt::format(" To keep that when the window changes, optimizer.beta2_half_life_tokens = {:.0f}.",
                              window.half_life_tokens);
}

// Whether cutting the window pays.
std::string accumulation_text(const Advice& advice) {
    if (!advice.whole) {
        return "none: the window is one micro-batch.";
    }
    const WholeWindow& whole = *advice.whole;
    const std::string needs = format_bytes(whole.peak_bytes);
    const char* const how = whole.is_measured ? "measured" : "predicted";
    const double least = whole.is_measured ? advice.trial->least_gain : whole.gain;
    const double most = whole.is_measured ? advice.trial->most_gain : whole.gain;
    const WindowAdvice& window = advice.window;
    const int64_t micro_batch = advice.plan.micro_batch_grains;
    if (window.sizing == WindowSizing::too_large &&
        window.better->tokens <= advice.times.tokens * static_cast<double>(micro_batch) / advice.window_grains) {
        return "not at all: the better window is no more than one micro-batch.";
    }
    if (whole.peak_bytes > advice.budget.bytes) {
        return fmt::format("needed: in one piece the window takes {}, and there are {}.", needs,
                           format_bytes(advice.budget.bytes));
    }
    if (least >= kNoticeable) {
        return fmt::format("not needed: the window fits in one piece ({}), {} {} tokens/s.", needs, how,
                           signed_percent(whole.gain));
    }
    return fmt::format("{}: in one piece the window takes {} instead of {}, {} {} tokens/s.",
                       most > -kNoticeable ? "costs nothing to speak of" : "pays", needs,
                       format_bytes(advice.peak_bytes), how, signed_percent(whole.gain));
}

}  // namespace

std::string advice_text(const Advice& advice) {
    std::string text = answer_text(advice) + wrapped(helps_text(advice), 0);
    text += '\n';
    text += times_text(advice);
    text += '\n';
    text += changes_text(advice) + "\nis this window worth having?\n";
    text += wrapped(sizing_text(advice), kIndent) + paragraph("learning rate", rate_text(advice));
    if (advice.window.half_life_tokens > 0) {
        text += paragraph("second moment", half_life_text(advice));
    }
    return text + paragraph("accumulation", accumulation_text(advice));
}

}  // namespace accrue
