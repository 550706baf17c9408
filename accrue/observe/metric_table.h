#pragma once

#include <array>
#include <string>

namespace accrue {

// A value in the lines of metrics.jsonl: all that its writer, its readers, the documentation and the tests know of it.
struct Metric {
    enum class Presence {
        always,
        nullable,   // in every line, null where it is undefined
        sometimes,  // only in the lines of steps that have it
    };
    // With what it changes from one run of the same definition to another.
    enum class Varies { never, with_cut, with_machine };

    const char* name = "";
    const char* meaning = "";
    Presence presence = Presence::always;
    Varies varies = Varies::never;
};

// A new metric is a constant here, and its place in kAll.
struct Metrics {
    using enum Metric::Presence;
    using enum Metric::Varies;

    static constexpr Metric step = {"step", "optimizer steps done, this one included"};
    static constexpr Metric epoch = {"epoch", "in which the window lies, from 0"};
    static constexpr Metric loss = {"loss", "nats per counted token; null if none was counted", nullable};
    static constexpr Metric validation_loss = {"validation_loss", "after the step, where it is evaluated", sometimes};
    static constexpr Metric validation_loss_before = {"validation_loss_before", "before the first step, which tells it",
                                                      sometimes};
    static constexpr Metric tokens = {"tokens", "counted ones of the window"};
    static constexpr Metric samples = {"samples", "of the window"};
    static constexpr Metric grains = {"grains", "of the window"};
    static constexpr Metric micro_batches = {"micro_batches", "into which the window was cut", always, with_cut};
    static constexpr Metric rate = {"rate", "learning rate of the step"};
    static constexpr Metric beta2 = {"beta2", "how much of the mean square stays in this step"};
    static constexpr Metric grad_norm = {"grad_norm", "of the window's mean gradient, before clipping; null if skipped",
                                         nullable};
    static constexpr Metric clipped = {"clipped", "whether the gradient was scaled down to optimizer.clip_norm"};
    static constexpr Metric grain_norm_mean = {"grain_norm_mean", "mean norm of the grains' mean gradients"};
    static constexpr Metric grain_norm_variance = {"grain_norm_variance", "variance of these norms"};
    static constexpr Metric noise_scale = {
        "noise_scale", "tokens at which noise and signal of the gradient are equal; null if no signal shows", nullable};
    static constexpr Metric skipped = {"skipped",
                                       "whether the weights stayed: a gradient is not finite, or no token counts"};
    static constexpr Metric replays = {"replays", "times the window was computed again, because its sums overflowed"};
    static constexpr Metric weights_hash = {"weights_hash", "checksum of all weights, at checkpoints", sometimes};
    static constexpr Metric seconds = {"seconds", "of the step", always, with_machine};
    static constexpr Metric grain_seconds_mean = {"grain_seconds_mean", "of forward and backward, a grain's share",
                                                  always, with_machine};
    static constexpr Metric grain_seconds_max = {"grain_seconds_max", "the longest of these", always, with_machine};
    static constexpr Metric data_wait_seconds = {"data_wait_seconds", "that the step waited for tokens", always,
                                                 with_machine};
    static constexpr Metric epoch_seconds = {"epoch_seconds", "of the epoch, at its end", sometimes, with_machine};
    static constexpr Metric startup_seconds = {
        "startup_seconds", "of the process before its first step, which tells it", sometimes, with_machine};
    static constexpr Metric tokens_per_second = {"tokens_per_second", "counted ones, of the step", always,
                                                 with_machine};
    static constexpr Metric updates_per_hour = {"updates_per_hour", "if all steps took as long", always, with_machine};
    static constexpr Metric peak_bytes = {"peak_bytes", "the most memory the process has held so far", always,
                                          with_machine};
    static constexpr Metric memory_efficiency = {"memory_efficiency", "the planned arena as a share of that", always,
                                                 with_machine};

    // In the order of a line.
    static constexpr std::array kAll = {step,
                                        epoch,
                                        loss,
                                        validation_loss,
                                        validation_loss_before,
                                        tokens,
                                        samples,
                                        grains,
                                        micro_batches,
                                        rate,
                                        beta2,
                                        grad_norm,
                                        clipped,
                                        grain_norm_mean,
                                        grain_norm_variance,
                                        noise_scale,
                                        skipped,
                                        replays,
                                        weights_hash,
                                        seconds,
                                        grain_seconds_mean,
                                        grain_seconds_max,
                                        data_wait_seconds,
                                        epoch_seconds,
                                        startup_seconds,
                                        tokens_per_second,
                                        updates_per_hour,
                                        peak_bytes,
                                        memory_efficiency};
};

// One line per metric with its meaning, for documentation.
[[nodiscard]] std::string describe_metrics();

}  // namespace accrue
