#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

#include "accrue/observe/metric_table.h"

namespace accrue {

// A value that is not there: null, absent, of another type, or too large to draw.
inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// What metrics.jsonl says, one column per value and one row per optimizer step.
struct RunHistory {
    bool readable = false;                // false: no such file, or an error while reading
    int64_t unusable_lines = 0;           // half lines, other text, objects without a "step"
    double validation_before = kNothing;  // the loss before the first step; the line of step 1 tells it
    std::vector<int64_t> steps;           // in the order of the file
    std::vector<double> loss;
    std::vector<double> validation_loss;
    std::vector<double> tokens;
    std::vector<double> grains;
    std::vector<double> rate;
    std::vector<double> grad_norm;
    std::vector<double> clipped;  // 1 or NaN
    std::vector<double> noise_scale;
    std::vector<double> skipped;  // 1 or NaN
    std::vector<double> replays;
    std::vector<double> seconds;
    std::vector<double> tokens_per_second;
    std::vector<double> updates_per_hour;
    std::vector<double> peak_bytes;
};

// The columns that hold values, and which metric each is of.
struct HistoryColumn {
    const Metric& metric;
    std::vector<double> RunHistory::*values;
};
inline constexpr HistoryColumn kHistoryColumns[] = {{Metrics::loss, &RunHistory::loss},
                                                    {Metrics::validation_loss, &RunHistory::validation_loss},
                                                    {Metrics::tokens, &RunHistory::tokens},
                                                    {Metrics::grains, &RunHistory::grains},
                                                    {Metrics::rate, &RunHistory::rate},
                                                    {Metrics::grad_norm, &RunHistory::grad_norm},
                                                    {Metrics::clipped, &RunHistory::clipped},
                                                    {Metrics::noise_scale, &RunHistory::noise_scale},
                                                    {Metrics::skipped, &RunHistory::skipped},
                                                    {Metrics::replays, &RunHistory::replays},
                                                    {Metrics::seconds, &RunHistory::seconds},
                                                    {Metrics::tokens_per_second, &RunHistory::tokens_per_second},
                                                    {Metrics::updates_per_hour, &RunHistory::updates_per_hour},
                                                    {Metrics::peak_bytes, &RunHistory::peak_bytes}};

// Reads the file line by line, so that only the columns are in memory. Never throws for what the file holds.
[[nodiscard]] RunHistory read_history(const std::filesystem::path& metrics_file);

}  // namespace accrue
