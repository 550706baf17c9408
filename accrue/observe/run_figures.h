#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "accrue/observe/metrics_rows.h"

namespace accrue {

// Values for a median: all of them while they are few, then every second, every fourth and so on, so that any number of
// values takes little memory.
class ThinnedValues {
public:
    // Those that are there; NaN is not.
    void add(double value);
    // Of an even number of values, the mean of the two in the middle; kNothing without values.
    [[nodiscard]] double median() const;
    [[nodiscard]] size_t kept() const { return values_.size(); }

    static constexpr size_t kMost = 32768;

private:
    int64_t seen_ = 0;
    int64_t each_ = 1;
    std::vector<double> values_;
};

// The first and the last of some values.
struct FirstAndLast {
    int64_t count = 0;
    double first = kNothing;
    double last = kNothing;

    void add(double value);
};

// What counts up while a process lives, and begins anew with the next one: all of it.
class CountOfProcesses {
public:
    void add(double value);
    [[nodiscard]] double total() const { return total_; }

private:
    double total_ = 0;
    double last_ = 0;
};

// Of the steps that several workers computed.
struct WorkerFigures {
    int64_t steps = 0;
    FirstAndLast workers;
    double seconds = 0;
    double exchange_seconds = 0;
    double exchange_bytes = 0;  // that all of them sent
    CountOfProcesses lost;
    CountOfProcesses recomputed_grains;

    void add(const MetricsRow& row);
};
// "3; 1 was lost, and 4 grain(s) computed again; exchange: 5% of the time, 1.20 GiB a step"; "" where no workers computed.
[[nodiscard]] std::string text_of(const WorkerFigures& workers);

// What a report says of a run as a whole, gathered step by step in the order of the file.
struct RunFigures {
    static constexpr size_t kLastRows = 10;

    int64_t first_step = 0;  // the smallest; of a run without rows 0
    int64_t last_step = 0;   // the largest
    int64_t rows = 0;
    double validation_before = kNothing;  // the loss before the first step; the line of step 1 tells it
    FirstAndLast loss;
    FirstAndLast validation_loss;
    double tokens = 0;
    double seconds = 0;
    double skipped = 0;
    FirstAndLast loss_scale;
    double replays = 0;
    double peak_bytes = kNothing;
    ThinnedValues tokens_per_second;
    ThinnedValues updates_per_hour;
    WorkerFigures workers;
    std::deque<MetricsRow> last_rows;  // so many, in the order of the file

    void add(const MetricsRow& row);
};

}  // namespace accrue
