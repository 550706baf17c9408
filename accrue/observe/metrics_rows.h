#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>

namespace accrue {

// A value that is not there: null, absent, of another type, or too large to draw.
inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// What a line of metrics.jsonl says of its step, in numbers.
struct MetricsRow {
    int64_t step = 0;
    double loss = kNothing;
    double validation_loss = kNothing;
    double validation_loss_before = kNothing;
    double tokens = kNothing;
    double grains = kNothing;
    double rate = kNothing;
    double grad_norm = kNothing;
    double clipped = kNothing;  // 1 or nothing
    double noise_scale = kNothing;
    double skipped = kNothing;  // 1 or nothing
    double loss_scale = kNothing;
    double replays = kNothing;
    double seconds = kNothing;
    double tokens_per_second = kNothing;
    double updates_per_hour = kNothing;
    double peak_bytes = kNothing;
    double workers = kNothing;
    double exchange_seconds = kNothing;
    double exchange_bytes = kNothing;
    double lost_workers = kNothing;
    double grains_recomputed = kNothing;
};

// How much of a file could be read.
struct MetricsReading {
    bool is_whole = false;       // false: no such file, or an error while reading
    int64_t rows = 0;            // lines of steps
    int64_t unusable_lines = 0;  // half lines, other text, objects without a "step"
};

// Calls action(row) for each step in the order of the file, of which one line at a time is in memory: a run may have any
// number of steps. Never throws for what the file holds.
MetricsReading read_metrics(const std::filesystem::path& metrics_file,
                            const std::function<void(const MetricsRow& row)>& action);

}  // namespace accrue
