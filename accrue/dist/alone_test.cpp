#include "accrue/dist/alone.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

using Grains = std::vector<int64_t>;
using Of = LikelyGrains::Of;

TEST(AloneTest, EveryMissingGrainIsGivenOnceAndInOrder) {
    GrainLedger mine(6, 1);
    mine.grain(2).finished = true;
    AloneAssignment alone;
    alone.begin({}, mine);
    EXPECT_EQ(alone.next(2), (Grains{0, 1}));
    EXPECT_EQ(alone.next(2), (Grains{3, 4}));
    EXPECT_EQ(alone.next(2), (Grains{5}));
    EXPECT_TRUE(alone.next(2).empty());
    alone.begin({}, GrainLedger(2, 1));
    EXPECT_EQ(alone.next(100), (Grains{0, 1})) << "a replay begins again";
}

TEST(AloneTest, WhatIsLikelyIsWhatComes) {
    AloneAssignment alone;
    alone.begin({}, GrainLedger(3, 1));
    EXPECT_EQ(alone.likely_next(2), (LikelyGrains{Of::this_window, {0, 1}}));
    EXPECT_EQ(alone.next(2), (Grains{0, 1}));
    EXPECT_EQ(alone.likely_next(2), (LikelyGrains{Of::this_window, {2}}));
    EXPECT_EQ(alone.next(2), (Grains{2}));
    EXPECT_EQ(alone.likely_next(2), (LikelyGrains{Of::next_window, {0, 1}}));
}

TEST(AloneTest, TheOwnLedgerIsEverybodysWithoutACopy) {
    const GrainLedger mine(3, 1);
    AloneReducer alone;
    EXPECT_EQ(&alone.agree(mine, Reducer::Wish::go_on).everyone, &mine);
    EXPECT_FALSE(alone.agree(mine, Reducer::Wish::go_on).stops);
    EXPECT_TRUE(alone.agree(mine, Reducer::Wish::stop).stops);
}

}  // namespace
}  // namespace accrue
