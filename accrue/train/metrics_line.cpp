#include "accrue/train/metrics_line.h"

#include <fstream>

#include <nlohmann/json.hpp>

namespace accrue {
namespace {

nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

nlohmann::ordered_json metrics_line(const StepReport& report, const StepSurroundings& around) {
    nlohmann::ordered_json line;
    line["step"] = report.step;
    line["epoch"] = report.window.first.epoch;
    line["loss"] = number_or_null(report.loss);
    if (around.validation_loss) {
        line["validation_loss"] = *around.validation_loss;
    }
    if (around.validation_loss_before) {
        line["validation_loss_before"] = *around.validation_loss_before;
    }
    line["tokens"] = report.tokens;
    line["samples"] = report.window.samples;
    line["grains"] = report.window.grains();
    line["micro_batches"] = report.micro_batches;
    line["rate"] = report.rate;
    line["beta2"] = report.beta2;
    line["grad_norm"] = number_or_null(report.grad_norm);
    line["clipped"] = report.clipped;
    line["grain_norm_mean"] = report.grains.norm_mean;
    line["grain_norm_variance"] = report.grains.norm_variance;
    line["noise_scale"] = number_or_null(report.grains.noise_scale);
    line["skipped"] = report.skipped;
    line["replays"] = report.replays;
    if (around.weights_hash) {
        line["weights_hash"] = *around.weights_hash;
    }
    line["seconds"] = report.seconds;
    line["grain_seconds_mean"] = report.grain_seconds_mean;
    line["grain_seconds_max"] = report.grain_seconds_max;
    line["data_wait_seconds"] = report.data_wait_seconds;
    if (around.epoch_seconds) {
        line["epoch_seconds"] = *around.epoch_seconds;
    }
    if (around.startup_seconds) {
        line["startup_seconds"] = *around.startup_seconds;
    }
    line["tokens_per_second"] = static_cast<double>(report.tokens) / report.seconds;
    line["updates_per_hour"] = 3600.0 / report.seconds;
    line["peak_bytes"] = around.peak_bytes;
    line["memory_efficiency"] = static_cast<double>(around.planned_bytes) / static_cast<double>(around.peak_bytes);
    return line;
}

nlohmann::ordered_json with_validation_loss(const nlohmann::ordered_json& line, double loss) {
    nlohmann::ordered_json result;
    for (const auto& [key, value] : line.items()) {
        result[key] = value;
        if (key == "loss") {
            result["validation_loss"] = loss;
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
