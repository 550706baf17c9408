#include "accrue/assess/advise_bottleneck.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

constexpr auto kProducts = static_cast<size_t>(Part::products_forward);
constexpr auto kUpdate = static_cast<size_t>(Part::optimizer);

// A second of a window that computes: 0.8 s of products and 0.1 s each of update and of ordering.
WindowTimes computing() {
    WindowTimes times{.tokens = 1000, .rows = 1000};
    times.kernels[kProducts] = 0.8;
    times.kernels[kUpdate] = 0.1;
    times.ordering_seconds = 0.1;
    return times;
}

constexpr ComputeSplit kArithmetic{.arithmetic_seconds = 0.9, .streaming_seconds = 0.1};
constexpr ComputeSplit kStreaming{.arithmetic_seconds = 0.4, .streaming_seconds = 0.6};

TEST(BottleneckTest, ComputingIsBoundByWhatTakesMostOfIt) {
    const Judgement arithmetic = judge(computing(), kArithmetic, 0);
    EXPECT_EQ(arithmetic.bound, Bound::compute);
    EXPECT_NEAR(arithmetic.share, 0.9, 1e-12);
    const Judgement streaming = judge(computing(), kStreaming, 0);
    EXPECT_EQ(streaming.bound, Bound::memory_bandwidth);
    EXPECT_NEAR(streaming.share, 0.6, 1e-12);
}

TEST(BottleneckTest, ALoaderThatIsWaitedForIsTheBound) {
    WindowTimes times = computing();
    times.data_wait_seconds = 0.05;  // 1/21
    EXPECT_EQ(judge(times, kArithmetic, 0).bound, Bound::compute);
    times.data_wait_seconds = 0.25;  // 1/5
    EXPECT_EQ(judge(times, kArithmetic, 0.5).bound, Bound::data);
    EXPECT_NEAR(judge(times, kArithmetic, 0.5).share, 0.2, 1e-12);
}

TEST(BottleneckTest, AWireThatIsWaitedForIsTheBound) {
    WindowTimes times = computing();
    times.synchronisation_seconds = 0.2;  // 1/6
    EXPECT_EQ(judge(times, kArithmetic, 0).bound, Bound::compute);
    times.synchronisation_seconds = 1;
    EXPECT_EQ(judge(times, kArithmetic, 0).bound, Bound::network);
    EXPECT_NEAR(judge(times, kArithmetic, 0).share, 0.5, 1e-12);
    times.data_wait_seconds = 2;
    EXPECT_EQ(judge(times, kArithmetic, 0).bound, Bound::data);
}

TEST(BottleneckTest, WhatIsComputedAgainForWantOfMemoryIsTheBound) {
    EXPECT_EQ(judge(computing(), kArithmetic, 0.03).bound, Bound::compute);
    EXPECT_EQ(judge(computing(), kStreaming, 0.2).bound, Bound::memory_capacity);
    WindowTimes times = computing();
    times.synchronisation_seconds = 9;  // memory could save a fiftieth of this window
    EXPECT_EQ(judge(times, kStreaming, 0.2).bound, Bound::network);
}

TEST(BottleneckTest, EachPartIsHeldBackByWhatItsWorkWouldTakeLonger) {
    const Ceilings ceilings{.flops = 100, .bytes = 10};
    EXPECT_FALSE(is_streaming({.flops = 1000, .bytes = 50}, ceilings));  // 10 s against 5 s
    EXPECT_TRUE(is_streaming({.flops = 1000, .bytes = 200}, ceilings));
    EXPECT_TRUE(is_streaming({.flops = 0, .bytes = 1}, ceilings));
    WorkByPart work{};
    work[kProducts] = {.flops = 1000, .bytes = 50};
    work[kUpdate] = {.flops = 0, .bytes = 50};
    const ComputeSplit split = split_compute(computing(), work, ceilings);
    EXPECT_NEAR(split.arithmetic_seconds, 0.9, 1e-12);
    EXPECT_NEAR(split.streaming_seconds, 0.1, 1e-12);
}

TEST(BottleneckTest, AChangeSavesNothingWhereTheLoaderIsTheBound) {
    WindowTimes times = computing();
    times.data_wait_seconds = 1;
    EXPECT_NEAR(seconds_after({.compute = 0.5}, times, Bound::data), 2, 1e-12);
    EXPECT_NEAR(seconds_after({.compute = 3}, times, Bound::data), 3, 1e-12);
    EXPECT_NEAR(seconds_after({.compute = 0.5}, computing(), Bound::compute), 0.5, 1e-12);
}

TEST(BottleneckTest, ALargerWindowSynchronisesAsOftenAsASmallOne) {
    WindowTimes times = computing();
    times.synchronisation_seconds = 1;
    EXPECT_NEAR(times.seconds(), 2, 1e-12);
    EXPECT_NEAR(times.fixed_seconds(), 1.1, 1e-12);
    EXPECT_NEAR(seconds_after({.compute = 2, .window = 2}, times, Bound::network), 3, 1e-12);
}

}  // namespace
}  // namespace accrue
