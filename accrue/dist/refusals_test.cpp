#include "accrue/dist/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RefusalsTest, NameTheMachineWithoutItsPort) {
    EXPECT_EQ(machine_of("ipv4:10.0.0.7:39312"), "10.0.0.7");
    EXPECT_EQ(machine_of("ipv6:%5Bfd00::7%5D:39312"), "[fd00::7]");
    EXPECT_EQ(machine_of("unknown"), "unknown");
}

TEST(RefusalsTest, WhatComesAgainIsToldTheTenthTime) {
    Refusals refusals;
    refusals.note("ipv4:10.0.0.7:1", "it has another join token");
    EXPECT_THAT(refusals.take(), ElementsAre("refused a call from 10.0.0.7: it has another join token"));
    for (int port = 2; port < 10; ++port) {
        refusals.note("ipv4:10.0.0.7:" + std::to_string(port), "it has another join token");
    }
    EXPECT_THAT(refusals.take(), IsEmpty());
    refusals.note("ipv4:10.0.0.7:10", "it has another join token");
    refusals.note("ipv4:10.0.0.8:10", "it has another join token");
    EXPECT_THAT(refusals.take(),
                ElementsAre("refused a call from 10.0.0.7: it has another join token (10 times so far)",
                            "refused a call from 10.0.0.8: it has another join token"));
}

TEST(RefusalsTest, NobodyCanFillTheLog) {
    Refusals refusals;
    for (int number = 0; number < 200'000; ++number) {
        refusals.note("ipv4:10.0.0.7:1", "it comes for run " + std::to_string(number));
    }
    EXPECT_LE(refusals.take().size(), 1010U);
}

TEST(JoinLimitTest, LetsSoManyInAndOthersAfterAWhile) {
    JoinLimit limit(2);
    EXPECT_TRUE(limit.admits("a", 100));
    EXPECT_TRUE(limit.admits("b", 100));
    EXPECT_FALSE(limit.admits("c", 100.1));
    EXPECT_TRUE(limit.admits("a", 100.1)) << "it is there already";
    EXPECT_TRUE(limit.admits("c", 100.7));
    EXPECT_FALSE(limit.admits("d", 100.8));
    EXPECT_TRUE(limit.admits("d", 200));
    EXPECT_TRUE(limit.admits("e", 200)) << "what nobody used is there, but not more than that";
    EXPECT_FALSE(limit.admits("f", 200));
}

}  // namespace
}  // namespace accrue
