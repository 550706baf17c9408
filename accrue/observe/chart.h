#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "accrue/observe/axis.h"

namespace accrue {

// Values of a chart, one per step; NaN leaves a gap.
struct ChartSeries {
    // marks show where a value is, not how large: a stroke at the foot of the chart.
    enum class Look { line, dashed, points, marks };
    std::string name;
    std::span<const double> values;
    Look look = Look::line;
};

// A chart over optimizer steps. The first series is what it is about: without values there, it says so instead.
struct Chart {
    std::string title;
    std::string unit;
    std::span<const int64_t> steps;
    std::vector<ChartSeries> series;
    AxisKind axis = AxisKind::from_data;
    std::string width_class;  // a class of the page's style
};

// The most buckets into which steps are put: a chart of a million steps is as large as one of 400.
inline constexpr int64_t kMostChartBuckets = 400;
// How many steps a chart from the first to the last step draws as one.
[[nodiscard]] int64_t steps_per_bucket(int64_t first_step, int64_t last_step);

// The chart as a <figure> with inline SVG. Where a bucket has several steps, the line is their mean, and a band behind it
// reaches from the smallest value to the largest.
[[nodiscard]] std::string chart_html(const Chart& chart);

}  // namespace accrue
