#include "accrue/assess/advise_bottleneck.h"

#include <set>

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
constexpr ComputeSplit kStreaming{.arithmetic_seconds = 0.2, .streaming_seconds = 0.45, .overhead_seconds = 0.35};
constexpr ComputeSplit kOverhead{.arithmetic_seconds = 0.3, .streaming_seconds = 0.3, .overhead_seconds = 0.4};

TEST(BottleneckTest, ComputingIsBoundByWhatTakesMostOfIt) {
    const Judgement arithmetic = judge(computing(), kArithmetic, 0);
    EXPECT_EQ(arithmetic.bound, Bound::compute);
    EXPECT_NEAR(arithmetic.share, 0.9, 1e-12);
    const Judgement streaming = judge(computing(), kStreaming, 0);
    EXPECT_EQ(streaming.bound, Bound::memory_bandwidth);
    EXPECT_NEAR(streaming.share, 0.45, 1e-12);
    const Judgement overhead = judge(computing(), kOverhead, 0);
    EXPECT_EQ(overhead.bound, Bound::overhead);
    EXPECT_NEAR(overhead.share, 0.4, 1e-12);
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

// Ceilings of 100 operations and 10 bytes a second; products of 0.8 s, an update of 0.1 s, ordering of 0.1 s.
ComputeSplit split_of(const Work& products, const Work& update) {
    WorkByPart work{};
    work[kProducts] = products;
    work[kUpdate] = update;
    return split_compute(computing(), work, {.flops = 100, .bytes = 10});
}

TEST(BottleneckTest, EachPartIsHeldBackByWhatItsWorkWouldTakeLonger) {
    const ComputeSplit split = split_of({.flops = 40, .bytes = 3}, {.flops = 1, .bytes = 0.9});  // 0.4 s against 0.3 s
    EXPECT_NEAR(split.arithmetic_seconds, 0.8, 1e-12);
    EXPECT_NEAR(split.streaming_seconds, 0.1, 1e-12);
    EXPECT_NEAR(split.overhead_seconds, 0.1, 1e-12) << "what is in no kernel";
    const ComputeSplit other = split_of({.flops = 40, .bytes = 5}, {.flops = 0, .bytes = 0.9});  // 0.4 s against 0.5 s
    EXPECT_NEAR(other.arithmetic_seconds, 0, 1e-12);
    EXPECT_NEAR(other.streaming_seconds, 0.9, 1e-12);
}

TEST(BottleneckTest, TimeFarAboveBothFloorsIsOverhead) {
    // Four times 0.05 s of arithmetic is what products may take, and twice 0.02 s of bytes the update.
    const ComputeSplit split = split_of({.flops = 5, .bytes = 0.1}, {.flops = 0, .bytes = 0.2});
    EXPECT_NEAR(split.arithmetic_seconds, 0.2, 1e-12);
    EXPECT_NEAR(split.streaming_seconds, 0.04, 1e-12);
    EXPECT_NEAR(split.overhead_seconds, 0.6 + 0.06 + 0.1, 1e-12);
    EXPECT_EQ(judge(computing(), split, 0).bound, Bound::overhead);
    // A part without work that anybody counted is nothing but overhead.
    EXPECT_NEAR(split_of({}, {}).overhead_seconds, 1, 1e-12);
}

// As a tiny model on a processor whose multiply-adds take next to no time: a fifth of the bandwidth is not what binds it.
TEST(BottleneckTest, SmallCallsOnAFastProcessorAreNotBoundByMemoryBandwidth) {
    WindowTimes times;
    times.kernels[kProducts] = 1;
    WorkByPart work{};
    work[kProducts] = {.flops = 500e9, .bytes = 7.8e9};
    const ComputeSplit split = split_compute(times, work, {.flops = 5600e9, .bytes = 38e9});
    EXPECT_NEAR(split.streaming_seconds, 2 * 7.8 / 38, 1e-9);
    EXPECT_EQ(judge(times, split, 0).bound, Bound::overhead);
    // The same bytes at two thirds of the bandwidth are.
    times.kernels[kProducts] = 0.3;
    EXPECT_EQ(judge(times, split_compute(times, work, {.flops = 5600e9, .bytes = 38e9}), 0).bound,
              Bound::memory_bandwidth);
}

TEST(BottleneckTest, EveryBoundHasAKey) {
    std::set<std::string_view> names;
    for (const Bound bound : {Bound::compute, Bound::memory_bandwidth, Bound::overhead, Bound::memory_capacity,
                              Bound::data, Bound::network}) {
        names.insert(name_of(bound));
    }
    EXPECT_EQ(names.size(), 6U);
    EXPECT_FALSE(names.contains(""));
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
