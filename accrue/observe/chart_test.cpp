#include "accrue/observe/chart.h"

#include <cmath>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

using testing::HasSubstr;
using testing::Not;
using Look = ChartSeries::Look;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Values of a series at steps 1, 2, 3...
struct Values {
    std::string name;
    std::vector<double> values;
    Look look = Look::line;
};

std::string chart_with(const std::vector<Values>& all, AxisKind axis = AxisKind::from_zero) {
    const auto last = std::max<int64_t>(1, std::ssize(all.front().values));
    Chart chart{
        .title = "t", .unit = "u", .grid = {.first = 1, .last = last}, .series = {}, .axis = axis, .width_class = "w"};
    for (const auto& [name, values, look] : all) {
        chart.series.push_back({name, look});
        for (size_t i = 0; i < values.size(); ++i) {
            chart.add(chart.series.size() - 1, static_cast<int64_t>(i) + 1, values[i]);
        }
    }
    return chart_html(chart);
}

// The d of the one path of that class, or "none".
std::string path_of(const std::string& html, const std::string& name) {
    const std::string start = "<path class=\"" + name + "\" d=\"";
    const size_t found = html.find(start);
    if (found == std::string::npos) {
        return "none";
    }
    const size_t begin = found + start.size();
    return html.substr(begin, html.find('"', begin) - begin);
}

size_t count_of(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
        ++count;
    }
    return count;
}

std::string line_chart(const std::vector<double>& values, AxisKind axis = AxisKind::from_zero) {
    return chart_with({{"v", values}}, axis);
}

// The axis reaches from 0 to 4, and the drawing is 1000 wide and 200 high.
TEST(ChartTest, ALineGoesThroughItsValues) {
    EXPECT_EQ(path_of(line_chart({4, 2, 1}), "line"), "M0.0 0.0L500.0 100.0L1000.0 150.0");
}

TEST(ChartTest, AMissingValueLeavesAGap) {
    EXPECT_EQ(path_of(line_chart({4, 2, kNan, 1, 0}), "line"), "M0.0 0.0L250.0 100.0M750.0 150.0L1000.0 200.0");
}

TEST(ChartTest, AMissingStepLeavesAGap) {
    Chart chart{.title = "t",
                .unit = "u",
                .grid = {.first = 1, .last = 5},
                .series = {{"v"}},
                .axis = AxisKind::from_zero,
                .width_class = "w"};
    for (const auto& [step, value] : {std::pair{1, 4.0}, {2, 2.0}, {4, 1.0}, {5, 0.0}}) {
        chart.add(0, step, value);
    }
    EXPECT_EQ(path_of(chart_html(chart), "line"), "M0.0 0.0L250.0 100.0M750.0 150.0L1000.0 200.0");
}

TEST(ChartTest, AValueBetweenGapsIsADot) {
    const std::string html = line_chart({4, kNan, 2, kNan, 0});
    EXPECT_EQ(path_of(html, "line lone"), "M0.0 0.0h0M500.0 100.0h0M1000.0 200.0h0");
    EXPECT_EQ(path_of(html, "line"), "none");
}

TEST(ChartTest, ALogarithmicChartHasGapsAtZero) {
    EXPECT_EQ(path_of(line_chart({1, 0, 10}, AxisKind::logarithmic), "line lone"), "M0.0 200.0h0M1000.0 0.0h0");
}

TEST(ChartTest, PointsAndMarksStandWhereTheirValuesAre) {
    const std::string html =
        chart_with({{"a", {4, 2, 1}}, {"b", {kNan, 4, kNan}, Look::points}, {"c", {1, kNan, 1}, Look::marks}});
    EXPECT_EQ(path_of(html, "points"), "M500.0 0.0h0");
    EXPECT_EQ(path_of(html, "marks"), "M0.0 200v-14.0M1000.0 200v-14.0");
    EXPECT_THAT(html, HasSubstr("<title>step 1\na 4\nc</title>"));
    EXPECT_THAT(html, HasSubstr("<title>step 2\na 2\nb 4</title>"));
    EXPECT_THAT(html, HasSubstr("<span class=\"key points\">b</span>"));
}

TEST(ChartTest, ManyStepsBecomeMeansInABand) {
    std::vector<double> values(static_cast<size_t>(3 * kMostChartBuckets), 2.0);
    values[0] = 0;
    values[1] = 4;
    const std::string html = line_chart(values);
    EXPECT_EQ(count_of(path_of(html, "line"), "L"), static_cast<size_t>(kMostChartBuckets - 1));
    EXPECT_THAT(path_of(html, "line"), testing::MatchesRegex("M0\\.8 100\\.0L.*")) << "the mean of 0, 4 and 2";
    EXPECT_THAT(path_of(html, "band"), testing::MatchesRegex("M0\\.8 0\\.0L.*L0\\.8 200\\.0Z"));
    EXPECT_THAT(html, HasSubstr("<title>steps 1 to 3\nv 2 (0 to 4)</title>"));
    EXPECT_THAT(html, HasSubstr("<title>steps 4 to 6\nv 2</title>"));
}

TEST(ChartTest, AMillionStepsStaySmall) {
    EXPECT_LT(line_chart(std::vector<double>(1000000, 1.5)).size(), 80000U);
}

TEST(ChartTest, FewStepsHaveNoBand) {
    EXPECT_EQ(path_of(line_chart({4, 2, 1}), "band"), "none");
}

TEST(ChartTest, WithoutValuesItSaysSo) {
    EXPECT_THAT(line_chart({kNan, kNan}), HasSubstr("No step has a value here."));
    EXPECT_THAT(line_chart({}), HasSubstr("No step has a value here."));
    EXPECT_THAT(line_chart({1}), Not(HasSubstr("No step has a value here.")));
}

TEST(ChartTest, NamesAreEscaped) {
    Chart chart{.title = "<t>",
                .unit = "<u>",
                .grid = {.first = 1, .last = 1},
                .series = {{"<v>"}, {"<x>", Look::dashed}},
                .width_class = "\"w"};
    chart.add(0, 1, 1);
    chart.add(1, 1, 1);
    const std::string html = chart_html(chart);
    for (const char* raw : {"<t>", "<u>", "<v>", "<x>", "\"\"w"}) {
        EXPECT_THAT(html, Not(HasSubstr(raw)));
    }
    EXPECT_THAT(html, HasSubstr("&lt;v&gt; 1"));
}

}  // namespace
}  // namespace accrue
