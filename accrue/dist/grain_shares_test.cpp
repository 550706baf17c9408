#include "accrue/dist/grain_shares.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace accrue {
namespace {

using GrainNumbers = std::vector<int64_t>;

GrainNumbers first_grains(int64_t count) {
    GrainNumbers all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

TEST(GrainSharesTest, MembersOfUnknownSpeedGetEqualRunsOfConsecutiveGrains) {
    GrainShares shares({0, 1, 3, 4, 6, 7}, {0, 0});
    EXPECT_EQ(shares.next(1, 2, {0, 0}), (GrainNumbers{4, 6}));
    EXPECT_EQ(shares.next(0, 2, {0, 0}), (GrainNumbers{0, 1}));
    EXPECT_EQ(shares.next(1, 2, {0, 0}), (GrainNumbers{7}));
    EXPECT_EQ(shares.next(0, 2, {0, 0}), (GrainNumbers{3}));
    EXPECT_TRUE(shares.next(0, 2, {0, 0}).empty());
}

TEST(GrainSharesTest, AFasterMemberGetsALongerRun) {
    GrainShares shares(first_grains(12), {3, 1});
    EXPECT_EQ(shares.next(1, 100, {3, 1}), (GrainNumbers{9, 10, 11}));
    EXPECT_EQ(shares.next(0, 100, {3, 1}), first_grains(9));
}

TEST(GrainSharesTest, AMemberOfUnknownSpeedIsTakenForTheMean) {
    GrainShares shares(first_grains(12), {4, 0, 2});
    EXPECT_EQ(shares.next(1, 100, {4, 0, 2}), (GrainNumbers{5, 6, 7, 8}));
}

TEST(GrainSharesTest, WhoeverIsThroughTakesTheLastHalfFromWhoeverWouldFinishLast) {
    const std::vector<double> speeds = {8, 4, 1};
    GrainShares shares(first_grains(26), speeds);
    EXPECT_EQ(shares.next(0, 100, speeds).size(), 16U);
    // 8 grains are left at 4 a second, and 2 at 1 a second: both take as long, and the first of them is taken from.
    EXPECT_EQ(shares.next(0, 2, speeds), (GrainNumbers{20, 21}));
    EXPECT_EQ(shares.next(0, 2, speeds), (GrainNumbers{22, 23}));
    EXPECT_EQ(shares.next(0, 2, speeds), (GrainNumbers{24, 25})) << "a micro-batch, though it is more than half";
    EXPECT_EQ(shares.next(1, 100, speeds), (GrainNumbers{16, 17, 18, 19}));
}

TEST(GrainSharesTest, EachGrainIsGivenOnceWhoeverAsks) {
    for (const GrainNumbers& order : {GrainNumbers{0, 1, 2}, GrainNumbers{2, 2, 0}, GrainNumbers{1}}) {
        GrainShares shares(first_grains(23), {1, 2, 0});
        GrainNumbers given;
        for (size_t i = 0; i < 30; ++i) {
            for (const int64_t grain : shares.next(static_cast<size_t>(order[i % order.size()]), 2, {1, 2, 0})) {
                given.push_back(grain);
            }
        }
        std::sort(given.begin(), given.end());
        EXPECT_EQ(given, first_grains(23));
    }
}

TEST(GrainSharesTest, FewerGrainsThanMembersIsNoProblem) {
    GrainShares shares({5}, {0, 0, 0});
    EXPECT_EQ(shares.next(0, 3, {0, 0, 0}), (GrainNumbers{5}));
    EXPECT_TRUE(shares.next(2, 3, {0, 0, 0}).empty());
    GrainShares none({}, {0, 0});
    EXPECT_TRUE(none.next(0, 1, {0, 0}).empty());
}

TEST(WorkerSpeedTest, NewMeasurementsCountMore) {
    WorkerSpeed speed;
    EXPECT_EQ(speed.grains_per_second(), 0);
    speed.add(6, 2);
    EXPECT_EQ(speed.grains_per_second(), 3);
    for (int i = 0; i < 14; ++i) {
        speed.add(1, 1);
    }
    EXPECT_GT(speed.grains_per_second(), 1);
    EXPECT_LT(speed.grains_per_second(), 1.4);
    const double before = speed.grains_per_second();
    speed.add(100, 0);
    EXPECT_EQ(speed.grains_per_second(), before) << "no time has passed on the clock";
}

}  // namespace
}  // namespace accrue
