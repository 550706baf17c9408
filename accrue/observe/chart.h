#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "accrue/observe/axis.h"

namespace accrue {

// The most buckets into which steps are put: a chart of a million steps is as large as one of 400.
inline constexpr int64_t kMostChartBuckets = 400;
// How many steps a chart from the first to the last step draws as one.
[[nodiscard]] int64_t steps_per_bucket(int64_t first_step, int64_t last_step);

// Steps that are drawn as one.
struct ChartBucket {
    int64_t count = 0;
    double smallest = std::numeric_limits<double>::infinity();
    double largest = -std::numeric_limits<double>::infinity();
    double total = 0;

    void add(double value);
    [[nodiscard]] double mean() const;
};

// How the steps from the first to the last become buckets.
struct ChartGrid {
    int64_t first = 0;
    int64_t last = 0;

    [[nodiscard]] int64_t steps_each() const { return steps_per_bucket(first, last); }
    [[nodiscard]] size_t buckets() const { return bucket_of(last) + 1; }
    [[nodiscard]] size_t bucket_of(int64_t step) const { return static_cast<size_t>((step - first) / steps_each()); }
    [[nodiscard]] int64_t begin(size_t bucket) const { return first + static_cast<int64_t>(bucket) * steps_each(); }
    [[nodiscard]] int64_t back(size_t bucket) const { return std::min(last, begin(bucket) + (steps_each() - 1)); }
    [[nodiscard]] double middle(size_t bucket) const {
        return static_cast<double>(begin(bucket)) + static_cast<double>(back(bucket) - begin(bucket)) / 2;
    }
};

// Values of a chart over its steps.
struct ChartSeries {
    // marks show where a value is, not how large: a stroke at the foot of the chart.
    enum class Look { line, dashed, points, marks };
    std::string name;
    Look look = Look::line;
    std::vector<ChartBucket> buckets = {};  // by Chart::add
};

// A chart over optimizer steps. The first series is what it is about: without values there, it says so instead.
struct Chart {
    std::string title;
    std::string unit;
    ChartGrid grid;
    std::vector<ChartSeries> series;
    AxisKind axis = AxisKind::from_data;
    std::string width_class;  // a class of the page's style

    // A step that has no value, or NaN, leaves a gap; so does on a logarithmic axis what is not above 0. A step outside of
    // the grid is left out.
    void add(size_t index, int64_t step, double value);
};

// The chart as a <figure> with inline SVG. Where a bucket has several steps, the line is their mean, and a band behind it
// reaches from the smallest value to the largest.
[[nodiscard]] std::string chart_html(const Chart& chart);

}  // namespace accrue
