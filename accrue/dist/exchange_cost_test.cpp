#include "accrue/dist/exchange_cost.h"

#include <vector>

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(ExchangeCostTest, OneMemberExchangesNothing) {
    const ExchangeCost cost = cost_of_exchange(1'000'000, 1);
    EXPECT_EQ(cost.sent_bytes, 0);
    EXPECT_EQ(cost.all_sent_bytes, 0);
    EXPECT_EQ(cost.held_bytes, 0);
    EXPECT_EQ(seconds_over_link(cost, 1e9), 0);
}

TEST(ExchangeCostTest, EachSendsTheSumsTwiceButForItsOwnRange) {
    constexpr int64_t kElements = 1024 * 840;  // as many blocks for each of 1 to 8
    for (int64_t members = 2; members <= 8; ++members) {
        const ExchangeCost cost = cost_of_exchange(kElements, members);
        EXPECT_EQ(cost.sent_bytes, 16 * kElements * (members - 1) / members);
        EXPECT_EQ(cost.all_sent_bytes, cost.sent_bytes * members);
        EXPECT_GE(cost.held_bytes, 8 * kElements);
    }
}

TEST(ExchangeCostTest, TheLargestRangeIsWaitedFor) {
    const ExchangeCost cost = cost_of_exchange(1025, 3);  // a block, the single element behind it, and nothing
    EXPECT_EQ(cost.all_sent_bytes, 16 * 1025 * 2);
    EXPECT_EQ(cost.sent_bytes, 8 * (1 + 2 * 1024));
}

// Of equal ranges; the second of the formulas of docs/workers.md.
TEST(ExchangeCostTest, WhoeverSharesSendsSumsOnceAndWeightsAsTheyAreRead) {
    constexpr int64_t kElements = 1024 * 840;
    for (int64_t members = 3; members <= 8; ++members) {
        for (const int64_t bytes : {2, 4}) {
            const int64_t each = kElements / members;
            const std::vector<RangeCost> ranges(static_cast<size_t>(members),
                                                {.elements = each, .weight_bytes = bytes * each});
            const ExchangeCost cost = cost_of_shared_exchange(ranges, 2);
            EXPECT_EQ(cost.members, members);
            EXPECT_EQ(cost.sent_bytes, 8 * kElements + bytes * each * (members - 1));
            EXPECT_EQ(cost.all_sent_bytes, cost.sent_bytes * members);
            EXPECT_EQ(cost_of_shared_exchange(ranges, 1).sent_bytes, cost.sent_bytes - 8 * each) << "nothing passed on";
            EXPECT_EQ(cost.held_bytes - cost_of_shared_exchange(ranges, 1).held_bytes, 8 * each);
            EXPECT_LT(cost.held_bytes, cost_of_exchange(kElements, members).held_bytes);
        }
    }
}

TEST(ExchangeCostTest, WhoeverOwnsWhatIsReadInFp32IsWaitedFor) {
    const std::vector<RangeCost> ranges = {{100, 400}, {100, 200}, {100, 200}};
    const ExchangeCost cost = cost_of_shared_exchange(ranges, 2);
    EXPECT_EQ(cost.sent_bytes, 8 * 300 + 2 * 400);
    EXPECT_EQ(cost.all_sent_bytes, 3 * 8 * 300 + 2 * 800);
    EXPECT_EQ(cost_of_shared_exchange(std::vector<RangeCost>{{100, 400}}, 2).sent_bytes, 0);
}

TEST(ExchangeCostTest, ALinkCarriesItsBitsLessTheHeaders) {
    const ExchangeCost cost{.members = 2, .sent_bytes = 125'000'000};  // 1e9 bits
    EXPECT_GT(seconds_over_link(cost, 1e9), 1.0);
    EXPECT_LT(seconds_over_link(cost, 1e9), 1.1);
    EXPECT_DOUBLE_EQ(seconds_over_link(cost, 100e6), 10 * seconds_over_link(cost, 1e9));
}

TEST(ExchangeCostTest, NoLinkMakesProcessorsFaster) {
    const ExchangeCost cost = cost_of_exchange(1024 * 1000, 4);
    EXPECT_LT(seconds_over_link(cost, 100e9), seconds_over_link(cost, 1e9));
    EXPECT_EQ(seconds_over_link(cost, 100e9), seconds_over_link(cost, 400e9));
    EXPECT_DOUBLE_EQ(seconds_over_loopback(cost, 4), seconds_over_link(cost, 400e9)) << "each has a thread of its own";
    EXPECT_EQ(seconds_over_loopback(cost, 8), seconds_over_loopback(cost, 4));
    EXPECT_DOUBLE_EQ(seconds_over_loopback(cost, 2), 2 * seconds_over_loopback(cost, 4)) << "two at a time";
    EXPECT_EQ(seconds_over_loopback(cost_of_exchange(1024, 1), 1), 0);
}

}  // namespace
}  // namespace accrue
