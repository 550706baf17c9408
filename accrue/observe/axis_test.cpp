#include "accrue/observe/axis.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

std::vector<std::string> labels(const ChartAxis& axis) {
    std::vector<std::string> result;
    for (const ChartAxis::Tick& tick : axis.ticks) {
        result.push_back(tick.label);
    }
    return result;
}

using Labels = std::vector<std::string>;

TEST(AxisTest, TicksAreRoundNumbersAroundTheValues) {
    EXPECT_EQ(labels(value_axis(4.1, 5.55, AxisKind::from_data)), (Labels{"4.0", "4.5", "5.0", "5.5", "6.0"}));
    EXPECT_EQ(labels(value_axis(1.9, 4.3, AxisKind::from_zero)), (Labels{"0", "1", "2", "3", "4", "5"}));
    EXPECT_EQ(labels(value_axis(-1, 1, AxisKind::from_data)), (Labels{"-1.0", "-0.5", "0", "0.5", "1.0"}));
}

TEST(AxisTest, SmallAndLargeValuesShareAUnit) {
    EXPECT_EQ(labels(value_axis(3e-5, 3e-4, AxisKind::from_zero)), (Labels{"0", "1e-4", "2e-4", "3e-4"}));
    EXPECT_EQ(labels(value_axis(1000, 52000, AxisKind::from_zero)), (Labels{"0", "20k", "40k", "60k"}));
    EXPECT_EQ(labels(value_axis(1e6, 2.4e6, AxisKind::from_zero)),
              (Labels{"0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"}));
    EXPECT_EQ(labels(value_axis(0, 3e20, AxisKind::from_zero)), (Labels{"0", "1e20", "2e20", "3e20"}));
}

TEST(AxisTest, LogarithmicTicksAreDecadesOrFiner) {
    EXPECT_EQ(labels(value_axis(48, 8192, AxisKind::logarithmic)), (Labels{"100", "1k", "10k"}));
    EXPECT_EQ(labels(value_axis(30, 90, AxisKind::logarithmic)), (Labels{"20", "50", "100"}));
    EXPECT_EQ(labels(value_axis(1e-4, 1, AxisKind::logarithmic)), (Labels{"1e-04", "0.001", "0.01", "0.1", "1"}));
}

TEST(AxisTest, WideLogarithmicAxesLeaveDecadesOut) {
    const ChartAxis axis = value_axis(1e-30, 1e30, AxisKind::logarithmic);
    EXPECT_GE(axis.ticks.size(), 3U);
    EXPECT_LE(axis.ticks.size(), 8U);
}

TEST(AxisTest, EveryValueIsInside) {
    for (const AxisKind kind : {AxisKind::from_data, AxisKind::from_zero, AxisKind::logarithmic}) {
        for (const double low : {1e-90, 1e-7, 0.3, 1.0, 8192.0, 3e90}) {
            for (const double factor : {1.0, 1.0000001, 1.7, 10.0, 12345.0}) {
                const ChartAxis axis = value_axis(low, low * factor, kind);
                EXPECT_GE(axis.place(low), -1e-6) << low << " x " << factor;
                EXPECT_LE(axis.place(low * factor), 1 + 1e-6) << low << " x " << factor;
                EXPECT_LT(axis.low, axis.high) << low << " x " << factor;
                EXPECT_GE(axis.ticks.size(), 2U) << low << " x " << factor;
                EXPECT_LE(axis.ticks.size(), 8U) << low << " x " << factor;
            }
        }
    }
}

TEST(AxisTest, AConstantValueHasRoomAroundIt) {
    const ChartAxis axis = value_axis(0, 0, AxisKind::from_zero);
    EXPECT_EQ(axis.low, 0);
    EXPECT_GT(axis.high, 0);
    const double place = value_axis(2, 2, AxisKind::from_data).place(2);
    EXPECT_GT(place, 0.2);
    EXPECT_LT(place, 0.8);
}

TEST(AxisTest, StepsReachFromEndToEnd) {
    const ChartAxis axis = step_axis(1, 200);
    EXPECT_EQ(axis.place(1), 0);
    EXPECT_EQ(axis.place(200), 1);
    EXPECT_EQ(labels(axis), (Labels{"50", "100", "150", "200"}));
    EXPECT_EQ(labels(step_axis(1, 3)), (Labels{"1", "2", "3"}));
    EXPECT_EQ(labels(step_axis(1, 100000)), (Labels{"20k", "40k", "60k", "80k", "100k"}));
}

TEST(AxisTest, AStepAloneStandsInTheMiddle) {
    EXPECT_EQ(step_axis(7, 7).place(7), 0.5);
    EXPECT_EQ(labels(step_axis(7, 7)), Labels{"7"});
}

}  // namespace
}  // namespace accrue
