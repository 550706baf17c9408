#include "accrue/observe/run_figures.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "accrue/base/bytes.h"

namespace accrue {
namespace {

void add_to(double& sum, double value) {
    sum += std::isnan(value) ? 0 : value;
}

}  // namespace

void ThinnedValues::add(double value) {
    if (std::isnan(value) || seen_++ % each_ != 0) {
        return;
    }
    values_.push_back(value);
    if (values_.size() == kMost) {
        for (size_t i = 0; i < kMost / 2; ++i) {
            values_[i] = values_[2 * i];
        }
        values_.resize(kMost / 2);
        each_ *= 2;
    }
}

double ThinnedValues::median() const {
    if (values_.empty()) {
        return kNothing;
    }
    std::vector<double> values = values_;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return values.size() % 2 == 1 ? *middle : (*std::max_element(values.begin(), middle) + *middle) / 2;
}

void FirstAndLast::add(double value) {
    if (!std::isnan(value)) {
        first = count == 0 ? value : first;
        last = value;
        ++count;
    }
}

void CountOfProcesses::add(double value) {
    if (!std::isnan(value)) {
        total_ += value < last_ ? value : value - last_;
        last_ = value;
    }
}

void WorkerFigures::add(const MetricsRow& row) {
    // Steps that one process computed lie between two processes that count.
    lost.add(std::isnan(row.workers) ? 0 : row.lost_workers);
    recomputed_grains.add(std::isnan(row.workers) ? 0 : row.grains_recomputed);
    if (std::isnan(row.workers)) {
        return;
    }
    ++steps;
    workers.add(row.workers);
    add_to(seconds, row.seconds);
    add_to(exchange_seconds, row.exchange_seconds);
    add_to(exchange_bytes, row.exchange_bytes);
}

std::string text_of(const WorkerFigures& workers) {
    if (workers.steps == 0) {
        return "";
    }
    std::string text = fmt::format("{:.0f}", workers.workers.last);
    if (workers.lost.total() > 0) {
        text += fmt::format("; lost {:.0f}, and {:.0f} grain(s) computed again", workers.lost.total(),
                            workers.recomputed_grains.total());
    }
    const double of_a_step = workers.exchange_bytes / static_cast<double>(workers.steps);
    return text + fmt::format("; exchange of sums: {:.0f}% of the time, {} a step",
                              workers.seconds > 0 ? 100 * workers.exchange_seconds / workers.seconds : 0,
                              format_bytes(static_cast<int64_t>(std::min(of_a_step, 0x1p62))));
}

void RunFigures::add(const MetricsRow& row) {
    first_step = rows == 0 ? row.step : std::min(first_step, row.step);
    last_step = std::max(last_step, row.step);
    ++rows;
    if (row.step == 1) {
        validation_before = row.validation_loss_before;
    }
    loss.add(row.loss);
    validation_loss.add(row.validation_loss);
    add_to(tokens, row.tokens);
    add_to(seconds, row.seconds);
    add_to(skipped, row.skipped);
    loss_scale.add(row.loss_scale);
    add_to(replays, row.replays);
    peak_bytes = std::fmax(peak_bytes, row.peak_bytes);  // of two, the one that is a number
    tokens_per_second.add(row.tokens_per_second);
    updates_per_hour.add(row.updates_per_hour);
    workers.add(row);
    last_rows.push_back(row);
    if (last_rows.size() > kLastRows) {
        last_rows.pop_front();
    }
}

}  // namespace accrue
