#include "accrue/observe/metrics_rows.h"

#include <cmath>
#include <fstream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "accrue/observe/metric_table.h"

namespace accrue {
namespace {

using Json = nlohmann::json;

constexpr double kLargest = 1e100;  // sums of a whole run of such values are still finite
constexpr int64_t kLastStep = int64_t{1} << 50;

struct Column {
    const Metric& metric;
    double MetricsRow::*value;
};
constexpr Column kColumns[] = {{Metrics::kLoss, &MetricsRow::loss},
                               {Metrics::kValidationLoss, &MetricsRow::validation_loss},
                               {Metrics::kValidationLossBefore, &MetricsRow::validation_loss_before},
                               {Metrics::kTokens, &MetricsRow::tokens},
                               {Metrics::kGrains, &MetricsRow::grains},
                               {Metrics::kRate, &MetricsRow::rate},
                               {Metrics::kGradNorm, &MetricsRow::grad_norm},
                               {Metrics::kClipped, &MetricsRow::clipped},
                               {Metrics::kNoiseScale, &MetricsRow::noise_scale},
                               {Metrics::kSkipped, &MetricsRow::skipped},
                               {Metrics::kLossScale, &MetricsRow::loss_scale},
                               {Metrics::kReplays, &MetricsRow::replays},
                               {Metrics::kSeconds, &MetricsRow::seconds},
                               {Metrics::kTokensPerSecond, &MetricsRow::tokens_per_second},
                               {Metrics::kUpdatesPerHour, &MetricsRow::updates_per_hour},
                               {Metrics::kPeakBytes, &MetricsRow::peak_bytes},
                               {Metrics::kWorkers, &MetricsRow::workers},
                               {Metrics::kExchangeSeconds, &MetricsRow::exchange_seconds},
                               {Metrics::kExchangeBytes, &MetricsRow::exchange_bytes},
                               {Metrics::kLostWorkers, &MetricsRow::lost_workers},
                               {Metrics::kGrainsRecomputed, &MetricsRow::grains_recomputed}};

double number_of(const Json& value) {
    const auto number = value.get<double>();
    return std::abs(number) <= kLargest ? number : kNothing;
}

// A truth value is 1 or nothing, so that a sum counts where it holds.
double value_of(const Json& line, const Metric& metric) {
    const auto found = line.find(metric.name);
    if (found == line.end() || !(found->is_number() || found->is_boolean())) {
        return kNothing;
    }
    return found->is_number() ? number_of(*found) : found->get<bool>() ? 1.0 : kNothing;
}

// Nothing if this is no line of metrics.
std::optional<MetricsRow> row_of(const Json& line) {
    const auto found = line.is_object() ? line.find(Metrics::kStep.name) : line.end();
    if (found == line.end() || !found->is_number_integer()) {
        return std::nullopt;
    }
    MetricsRow row{.step = found->get<int64_t>()};
    if (row.step < 0 || row.step > kLastStep) {
        return std::nullopt;
    }
    for (const auto& [metric, value] : kColumns) {
        row.*value = value_of(line, metric);
    }
    return row;
}

}  // namespace

MetricsReading read_metrics(const std::filesystem::path& metrics_file,
                            const std::function<void(const MetricsRow& row)>& action) {
    MetricsReading reading;
    std::ifstream file(metrics_file);
    if (!file.is_open()) {
        return reading;
    }
    for (std::string line; std::getline(file, line);) {
        if (line.empty()) {
            continue;
        }
        if (const auto row = row_of(Json::parse(line, nullptr, false))) {
            ++reading.rows;
            action(*row);
        } else {
            ++reading.unusable_lines;
        }
    }
    reading.is_whole = !file.bad();
    return reading;
}

}  // namespace accrue
