#include "accrue/observe/axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace accrue {
namespace {

constexpr double kWantedSpaces = 5;
constexpr int kMostLogTicks = 6;

// The smallest of 1, 2, 5 times a power of ten that is at least this.
double round_up_to_nice(double value) {
    const double power = std::pow(10.0, std::floor(std::log10(value)));
    for (const double digit : {1.0, 2.0, 5.0}) {
        if (digit * power >= value * (1 - 1e-9)) {
            return digit * power;
        }
    }
    return 10 * power;
}

int decimals_for(double step) {
    return std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
}

// All labels of an axis share a unit and a number of decimals.
std::vector<ChartAxis::Tick> labelled(const std::vector<double>& values, double step) {
    const double largest = values.empty() ? 0 : std::max(std::abs(values.front()), std::abs(values.back()));
    double unit = 1;
    std::string suffix;
    if (largest >= 1e4 && largest < 1e15) {
        const int thousands = std::min(static_cast<int>(std::log10(largest) + 1e-9) / 3, 4);
        unit = std::pow(1000.0, thousands);
        suffix = std::string(1, " kMGT"[thousands]);
    } else if (largest > 0 && (largest < 1e-3 || largest >= 1e15)) {
        const int exponent = static_cast<int>(std::floor(std::log10(largest) + 1e-9));
        unit = std::pow(10.0, exponent);
        suffix = fmt::format("e{}", exponent);
    }
    std::vector<ChartAxis::Tick> ticks;
    for (const double value : values) {
        const bool zero = std::abs(value) < step / 2;
        ticks.push_back({zero ? 0.0 : value,
                         zero ? "0" : fmt::format("{:.{}f}{}", value / unit, decimals_for(step / unit), suffix)});
    }
    return ticks;
}

ChartAxis linear_axis(double low, double high) {
    const double size = std::max(std::abs(low), std::abs(high));
    if (high - low <= 1e-6 * size || size == 0) {
        const double margin = size > 0 ? size / 10 : 1;
        // Values that never go below zero get no axis that does.
        low = low >= 0 ? std::max(0.0, low - margin) : low - margin;
        high += margin;
    }
    const double step = round_up_to_nice((high - low) / kWantedSpaces);
    const double first = std::floor(low / step + 1e-9);
    const double last = std::ceil(high / step - 1e-9);
    std::vector<double> values;
    for (double index = first; index <= last; ++index) {
        values.push_back(index * step);
    }
    return {.low = first * step, .high = last * step, .ticks = labelled(values, step)};
}

// ..., 0.5, 1, 2, 5, 10, ...: number 0 is 1, number 3 is 10.
double log_tick(int number) {
    const int decade = static_cast<int>(std::floor(number / 3.0));
    return std::array{1.0, 2.0, 5.0}[static_cast<size_t>(number - 3 * decade)] * std::pow(10.0, decade);
}

std::string log_label(double value) {
    if (value >= 1e15 || value < 1e-3) {
        return fmt::format("{:.0e}", value);
    }
    const int thousands = value >= 1000 ? std::min(static_cast<int>(std::log10(value) + 1e-9) / 3, 4) : 0;
    return thousands == 0 ? fmt::format("{:g}", value)
                          : fmt::format("{:g}{}", value / std::pow(1000.0, thousands), " kMGT"[thousands]);
}

ChartAxis log_axis(double low, double high) {
    int first = 3 * static_cast<int>(std::floor(std::log10(low)));
    while (log_tick(first + 1) <= low) {
        ++first;
    }
    int last = first + 1;
    while (log_tick(last) < high) {
        ++last;
    }
    ChartAxis axis{.low = log_tick(first), .high = log_tick(last), .logarithmic = true, .ticks = {}};
    int stride = 1;
    if (last - first >= kMostLogTicks) {
        stride = 3 * ((last - first) / (3 * kMostLogTicks) + 1);
    }
    for (int number = first; number <= last; ++number) {
        if (number % stride == 0) {
            axis.ticks.push_back({log_tick(number), log_label(log_tick(number))});
        }
    }
    return axis;
}

}  // namespace

double ChartAxis::place(double value) const {
    return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
}

ChartAxis value_axis(double low, double high, AxisKind kind) {
    if (kind == AxisKind::logarithmic) {
        return log_axis(low, high);
    }
    return kind == AxisKind::from_zero ? linear_axis(std::min(low, 0.0), std::max(high, 0.0)) : linear_axis(low, high);
}

ChartAxis step_axis(int64_t first, int64_t last) {
    const auto low = static_cast<double>(first);
    const auto high = static_cast<double>(last);
    const double step = std::max(1.0, round_up_to_nice(std::max(high - low, 1.0) / kWantedSpaces));
    std::vector<double> values;
    for (double index = std::ceil(low / step); index * step <= high && values.size() < 10; ++index) {
        values.push_back(index * step);
    }
    // One step alone stands in the middle.
    const double margin = last > first ? 0 : 0.5;
    return {.low = low - margin, .high = high + margin, .ticks = labelled(values, step)};
}

}  // namespace accrue
