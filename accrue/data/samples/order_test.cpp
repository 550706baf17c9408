#include <set>

#include <gtest/gtest.h>

#include "accrue/base/random.h"
#include "accrue/data/samples/dataset.h"

namespace accrue {
namespace {

std::vector<int64_t> order_of(const SampleOrder& order, int64_t epoch) {
    std::vector<int64_t> result;
    for (int64_t place = 0; place < order.size(); ++place) {
        result.push_back(order.sample_at(epoch, place));
    }
    return result;
}

TEST(SampleOrderTest, SequentialIsTheOrderOfTheFiles) {
    const SampleOrder order(SampleOrder::Kind::sequential, 1, 5);
    EXPECT_EQ(order_of(order, 0), (std::vector<int64_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(order_of(order, 3), order_of(order, 0));
}

TEST(SampleOrderTest, EachEpochTakesEverySampleOnce) {
    const SampleOrder order(SampleOrder::Kind::shuffled, 1, 1001);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
        const std::vector<int64_t> samples = order_of(order, epoch);
        const std::set<int64_t> distinct(samples.begin(), samples.end());
        EXPECT_EQ(distinct.size(), 1001U);
        EXPECT_EQ(*distinct.begin(), 0);
        EXPECT_EQ(*distinct.rbegin(), 1000);
    }
}

TEST(SampleOrderTest, EpochsAndSeedsDiffer) {
    const SampleOrder order(SampleOrder::Kind::shuffled, 1, 100);
    EXPECT_NE(order_of(order, 0), order_of(order, 1));
    EXPECT_NE(order_of(order, 0), order_of(SampleOrder(SampleOrder::Kind::shuffled, 2, 100), 0));
    EXPECT_EQ(order_of(order, 7), order_of(SampleOrder(SampleOrder::Kind::shuffled, 1, 100), 7));
}

// Old runs resume only while this stays true, so the numbers are written out.
TEST(SampleOrderTest, TheOrderIsThePermutationOfSeedAndEpoch) {
    const SampleOrder order(SampleOrder::Kind::shuffled, 9, 50);
    const Permutation expected(mix(9, 4), 50);
    for (uint64_t place = 0; place < 50; ++place) {
        EXPECT_EQ(order.sample_at(4, static_cast<int64_t>(place)), static_cast<int64_t>(expected[place]));
    }
    EXPECT_EQ(order_of(SampleOrder(SampleOrder::Kind::shuffled, 1, 8), 0),
              (std::vector<int64_t>{3, 6, 7, 1, 4, 0, 2, 5}));
}

}  // namespace
}  // namespace accrue
