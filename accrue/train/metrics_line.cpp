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
    put(line, Metrics::step, report.step);
    put(line, Metrics::epoch, report.window.first.epoch);
    put(line, Metrics::loss, report.loss);
    put(line, Metrics::validation_loss, around.validation_loss);
    put(line, Metrics::validation_loss_before, around.validation_loss_before);
    put(line, Metrics::tokens, report.tokens);
    put(line, Metrics::samples, report.window.samples);
    put(line, Metrics::grains, report.window.grains());
    put(line, Metrics::micro_batches, report.micro_batches);
    put(line, Metrics::rate, report.rate);
    put(line, Metrics::beta2, report.beta2);
    put(line, Metrics::grad_norm, report.grad_norm);
    put(line, Metrics::clipped, report.clipped);
    put(line, Metrics::grain_norm_mean, report.grains.norm_mean);
    put(line, Metrics::grain_norm_variance, report.grains.norm_variance);
    put(line, Metrics::noise_scale, report.grains.noise_scale);
    put(line, Metrics::skipped, report.skipped);
    put(line, Metrics::replays, report.replays);
    put(line, Metrics::weights_hash, around.weights_hash);
    put(line, Metrics::seconds, report.seconds);
    put(line, Metrics::grain_seconds_mean, report.grain_seconds_mean);
    put(line, Metrics::grain_seconds_max, report.grain_seconds_max);
    put(line, Metrics::data_wait_seconds, report.data_wait_seconds);
    put(line, Metrics::epoch_seconds, around.epoch_seconds);
    put(line, Metrics::startup_seconds, around.startup_seconds);
    put(line, Metrics::tokens_per_second, static_cast<double>(report.tokens) / report.seconds);
    put(line, Metrics::updates_per_hour, 3600.0 / report.seconds);
    put(line, Metrics::peak_bytes, around.peak_bytes);
    put(line, Metrics::memory_efficiency,
        static_cast<double>(around.planned_bytes) / static_cast<double>(around.peak_bytes));
    return line;
}

nlohmann::ordered_json with_validation_loss(const nlohmann::ordered_json& line, double loss) {
    Line result;
    for (const auto& [key, value] : line.items()) {
        result[key] = value;
        if (key == Metrics::loss.name) {
            put(result, Metrics::validation_loss, loss);
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
