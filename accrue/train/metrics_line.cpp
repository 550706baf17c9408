#include "accrue/train/metrics_line.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "accrue/observe/metric_table.h"

namespace accrue {
namespace {

using Line = nlohmann::ordered_json;

void put(Line& line, const Metric& metric, const auto& value) {
    line[metric.name] = value;
}

// Nothing is null, or no entry at all: as the metric says.
template <class Value>
void put(Line& line, const Metric& metric, const std::optional<Value>& value) {
    if (value || metric.presence != Metric::Presence::sometimes) {
        line[metric.name] = value ? Line(*value) : Line(nullptr);
    }
}

}  // namespace

nlohmann::ordered_json metrics_line(const StepReport& report, const StepSurroundings& around) {
    Line line;
    put(line, Metrics::kStep, report.step);
    put(line, Metrics::kEpoch, report.window.first.epoch);
    put(line, Metrics::kLoss, report.loss);
    put(line, Metrics::kValidationLoss, around.validation_loss);
    put(line, Metrics::kValidationLossBefore, around.validation_loss_before);
    put(line, Metrics::kTokens, report.tokens);
    put(line, Metrics::kSamples, report.window.samples);
    put(line, Metrics::kGrains, report.window.grains());
    put(line, Metrics::kMicroBatches, report.micro_batches);
    put(line, Metrics::kRate, report.rate);
    put(line, Metrics::kBeta2, report.beta2);
    put(line, Metrics::kGradNorm, report.grad_norm);
    put(line, Metrics::kClipped, report.clipped);
    put(line, Metrics::kGrainNormMean, report.grains.norm_mean);
    put(line, Metrics::kGrainNormVariance, report.grains.norm_variance);
    put(line, Metrics::kNoiseScale, report.grains.noise_scale);
    put(line, Metrics::kSkipped, report.skipped);
    put(line, Metrics::kLossScale, report.loss_scale);
    put(line, Metrics::kReplays, report.replays);
    put(line, Metrics::kWeightsHash, around.weights_hash);
    put(line, Metrics::kSeconds, report.seconds);
    put(line, Metrics::kGrainSecondsMean, report.grain_seconds_mean);
    put(line, Metrics::kGrainSecondsMax, report.grain_seconds_max);
    put(line, Metrics::kDataWaitSeconds, report.data_wait_seconds);
    put(line, Metrics::kEpochSeconds, around.epoch_seconds);
    put(line, Metrics::kStartupSeconds, around.startup_seconds);
    put(line, Metrics::kTokensPerSecond, static_cast<double>(report.tokens) / report.seconds);
    put(line, Metrics::kUpdatesPerHour, 3600.0 / report.seconds);
    put(line, Metrics::kPeakBytes, around.peak_bytes);
    put(line, Metrics::kMemoryEfficiency,
        static_cast<double>(around.planned_bytes) / static_cast<double>(around.peak_bytes));
    if (report.is_mixed) {
        put(line, Metrics::kMixed, true);
    }
    if (report.team) {
        put(line, Metrics::kWorkers, report.team->workers);
        put(line, Metrics::kExchangeSeconds, report.team->exchange_seconds);
        put(line, Metrics::kExchangeBytes, report.team->exchange_bytes);
        put(line, Metrics::kLostWorkers, report.team->lost_workers);
        put(line, Metrics::kGrainsRecomputed, report.team->grains_recomputed);
    }
    return line;
}

nlohmann::ordered_json with_validation_loss(const nlohmann::ordered_json& line, double loss) {
    Line result;
    for (const auto& [key, value] : line.items()) {
        result[key] = value;
        if (key == Metrics::kLoss.name) {
            put(result, Metrics::kValidationLoss, loss);
        }
    }
    return result;
}

int64_t peak_resident_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word == "VmHWM:") {
            int64_t kilobytes = 0;
            status >> kilobytes;
            return kilobytes * 1024;
        }
    }
    return 0;
}

}  // namespace accrue
