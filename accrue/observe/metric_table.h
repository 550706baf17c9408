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

    static constexpr Metric kStep = {"step", "optimizer steps done, this one included"};
    static constexpr Metric kEpoch = {"epoch", "in which the window lies, from 0"};
    static constexpr Metric kLoss = {"loss", "nats per counted token; null if none was counted", nullable};
    static constexpr Metric kValidationLoss = {"validation_loss", "after the step, where it is evaluated", sometimes};
    static constexpr Metric kValidationLossBefore = {"validation_loss_before", "before the first step, which tells it",
                                                     sometimes};
    static constexpr Metric kTokens = {"tokens", "counted ones of the window"};
    static constexpr Metric kSamples = {"samples", "of the window"};
    static constexpr Metric kGrains = {"grains", "of the window"};
    static constexpr Metric kMicroBatches = {"micro_batches", "into which the window was cut", always, with_cut};
    static constexpr Metric kRate = {"rate", "learning rate of the step"};
    static constexpr Metric kBeta2 = {"beta2", "decay of the second moment in this step"};
    static constexpr Metric kGradNorm = {"grad_norm", "of the window's mean gradient, before clipping; null if skipped",
                                         nullable};
    static constexpr Metric kClipped = {"clipped", "whether the gradient was scaled down to optimizer.clip_norm"};
    static constexpr Metric kGrainNormMean = {"grain_norm_mean", "mean norm of the grains' mean gradients"};
    static constexpr Metric kGrainNormVariance = {"grain_norm_variance", "variance of these norms"};
    static constexpr Metric kNoiseScale = {
        "noise_scale", "tokens at which noise and signal of the gradient are equal; null if no signal shows", nullable};
    static constexpr Metric kSkipped = {"skipped",
                                        "whether the weights stayed: a gradient is not finite, or no token counts"};
    static constexpr Metric kLossScale = {
        "loss_scale", "of the window, with compute.dtype = \"fp16\"; halves where a window is skipped for it",
        sometimes};
    static constexpr Metric kReplays = {"replays", "times the window was computed again, because its sums overflowed"};
    static constexpr Metric kWeightsHash = {"weights_hash", "checksum of all weights, at checkpoints", sometimes};
    static constexpr Metric kSeconds = {"seconds", "of the step", always, with_machine};
    static constexpr Metric kGrainSecondsMean = {"grain_seconds_mean", "of forward and backward, a grain's share",
                                                 always, with_machine};
    static constexpr Metric kGrainSecondsMax = {"grain_seconds_max", "the longest of these", always, with_machine};
    static constexpr Metric kDataWaitSeconds = {"data_wait_seconds", "that the step waited for tokens", always,
                                                with_machine};
    static constexpr Metric kEpochSeconds = {"epoch_seconds", "of the epoch, at its end", sometimes, with_machine};
    static constexpr Metric kStartupSeconds = {
        "startup_seconds", "of the process before its first step, which tells it", sometimes, with_machine};
    static constexpr Metric kTokensPerSecond = {"tokens_per_second", "counted ones, of the step", always, with_machine};
    static constexpr Metric kUpdatesPerHour = {"updates_per_hour", "if all steps took as long", always, with_machine};
    static constexpr Metric kPeakBytes = {"peak_bytes", "the most memory the process has held so far", always,
                                          with_machine};
    static constexpr Metric kMemoryEfficiency = {"memory_efficiency", "the planned arena as a share of that", always,
                                                 with_machine};

    static constexpr Metric kWorkers = {"workers", "processes that computed the step, where there are several",
                                        sometimes, with_machine};
    static constexpr Metric kExchangeSeconds = {"exchange_seconds", "in which workers added up their sums", sometimes,
                                                with_machine};
    static constexpr Metric kExchangeBytes = {"exchange_bytes", "that all workers sent for it", sometimes,
                                              with_machine};
    static constexpr Metric kLostWorkers = {"lost_workers", "so far: killed, or silent for too long", sometimes,
                                            with_machine};
    static constexpr Metric kGrainsRecomputed = {
        "grains_recomputed", "so far, because the worker that had them was lost", sometimes, with_machine};

    static constexpr Metric kMixed = {"mixed", "true once workers with other bits have taken part (workers.mixed)",
                                      sometimes, with_machine};

    // In the order of a line.
    static constexpr std::array kAll = {kStep,
                                        kEpoch,
                                        kLoss,
                                        kValidationLoss,
                                        kValidationLossBefore,
                                        kTokens,
                                        kSamples,
                                        kGrains,
                                        kMicroBatches,
                                        kRate,
                                        kBeta2,
                                        kGradNorm,
                                        kClipped,
                                        kGrainNormMean,
                                        kGrainNormVariance,
                                        kNoiseScale,
                                        kSkipped,
                                        kLossScale,
                                        kReplays,
                                        kWeightsHash,
                                        kSeconds,
                                        kGrainSecondsMean,
                                        kGrainSecondsMax,
                                        kDataWaitSeconds,
                                        kEpochSeconds,
                                        kStartupSeconds,
                                        kTokensPerSecond,
                                        kUpdatesPerHour,
                                        kPeakBytes,
                                        kMemoryEfficiency,
                                        kMixed,
                                        kWorkers,
                                        kExchangeSeconds,
                                        kExchangeBytes,
                                        kLostWorkers,
                                        kGrainsRecomputed};
};

// One line per metric with its meaning, for documentation.
[[nodiscard]] std::string describe_metrics();

}  // namespace accrue
