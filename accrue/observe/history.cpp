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

double number(const Json& line, const char* key) {
    const auto found = line.find(key);
    if (found == line.end() || !found->is_number()) {
        return kNothing;
    }
    const auto value = found->get<double>();
    return std::abs(value) <= kLargest ? value : kNothing;
}

double flag(const Json& line, const char* key) {
    const auto found = line.find(key);
    return found != line.end() && found->is_boolean() && found->get<bool>() ? 1.0 : kNothing;
}

// False if this is no line of metrics.
bool append(RunHistory& history, const Json& line) {
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) {
        return false;
    }
    const auto step = line["step"].get<int64_t>();
    if (step < 0 || step > kLastStep) {
        return false;
    }
    if (step == 1) {
        history.validation_before = number(line, "validation_loss_before");
    }
    history.steps.push_back(step);
    history.loss.push_back(number(line, "loss"));
    history.validation_loss.push_back(number(line, "validation_loss"));
    history.tokens.push_back(number(line, "tokens"));
    history.grains.push_back(number(line, "grains"));
    history.rate.push_back(number(line, "rate"));
    history.grad_norm.push_back(number(line, "grad_norm"));
    history.clipped.push_back(flag(line, "clipped"));
    history.noise_scale.push_back(number(line, "noise_scale"));
    history.skipped.push_back(flag(line, "skipped"));
    history.replays.push_back(number(line, "replays"));
    history.seconds.push_back(number(line, "seconds"));
    history.tokens_per_second.push_back(number(line, "tokens_per_second"));
    history.updates_per_hour.push_back(number(line, "updates_per_hour"));
    history.peak_bytes.push_back(number(line, "peak_bytes"));
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
