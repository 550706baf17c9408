#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue {

// How the values of a chart become heights.
enum class AxisKind { from_data, from_zero, logarithmic };

// One axis of a chart: its range, widened to round numbers, and the ticks on it.
struct ChartAxis {
    struct Tick {
        double value = 0;
        std::string label;
    };
    double low = 0;
    double high = 1;
    bool logarithmic = false;
    std::vector<Tick> ticks;

    // 0 at the low end, 1 at the high end.
    [[nodiscard]] double place(double value) const;
};

// An axis that holds every value from low to high; a logarithmic one needs low > 0.
[[nodiscard]] ChartAxis value_axis(double low, double high, AxisKind kind);
// An axis that reaches exactly from the first step to the last, with ticks at whole steps.
[[nodiscard]] ChartAxis step_axis(int64_t first, int64_t last);

}  // namespace accrue
