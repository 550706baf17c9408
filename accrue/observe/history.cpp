#include "accrue/observe/history.h"

#include <cmath>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace accrue {
namespace {

using Json = nlohmann::json;

constexpr double kLargest = 1e100;  // sums of a whole run of such values are still finite
constexpr int64_t kLastStep = int64_t{1} << 50;

double number_of(const Json& value) {
    const auto number = value.get<double>();
    return std::abs(number) <= kLargest ? number : kNothing;
}

// A truth value is 1 or nothing, so that columns of them show where they hold.
double value_of(const Json& line, const Metric& metric) {
    const auto found = line.find(metric.name);
    if (found == line.end() || !(found->is_number() || found->is_boolean())) {
        return kNothing;
    }
    return found->is_number() ? number_of(*found) : found->get<bool>() ? 1.0 : kNothing;
}

// False if this is no line of metrics.
bool append(RunHistory& history, const Json& line) {
    const auto found = line.is_object() ? line.find(Metrics::step.name) : line.end();
    if (found == line.end() || !found->is_number_integer()) {
        return false;
    }
    const auto step = found->get<int64_t>();
    if (step < 0 || step > kLastStep) {
        return false;
    }
    if (step == 1) {
        history.validation_before = value_of(line, Metrics::validation_loss_before);
    }
    history.steps.push_back(step);
    for (const auto& [metric, values] : kHistoryColumns) {
        (history.*values).push_back(value_of(line, metric));
    }
    return true;
}

}  // namespace

RunHistory read_history(const std::filesystem::path& metrics_file) {
    RunHistory history;
    std::ifstream file(metrics_file);
    if (!file.is_open()) {
        return history;
    }
    for (std::string line; std::getline(file, line);) {
        const Json parsed = Json::parse(line, nullptr, false);
        if (!line.empty() && !append(history, parsed)) {
            ++history.unusable_lines;
        }
    }
    history.readable = !file.bad();
    return history;
}

}  // namespace accrue
