#include "accrue/base/pool.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace accrue {
namespace {

class PoolTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, PoolTest, testing::Values(1, 2, 3, 8));

TEST_P(PoolTest, EveryItemRunsOnce) {
    Pool pool(GetParam());
    EXPECT_EQ(pool.threads(), GetParam());
    for (const int64_t items : {0, 1, 2, 7, 1000}) {
        std::vector<int> runs(static_cast<size_t>(items), 0);
        pool.run(items, [&](int64_t item, int thread) {
            runs[static_cast<size_t>(item)] += thread >= 0 && thread < pool.threads() ? 1 : 100;
        });
        EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(items), 1));
    }
}

// Each thread number belongs to one thread at a time, so scratch memory may be indexed by it.
TEST_P(PoolTest, AThreadNumberIsUsedByOneThreadAtATime) {
    Pool pool(GetParam());
    std::vector<int64_t> counts(static_cast<size_t>(GetParam()) * 64, 0);
    pool.run(5000, [&](int64_t, int thread) { ++counts[static_cast<size_t>(thread) * 64]; });
    int64_t total = 0;
    for (const int64_t count : counts) {
        total += count;
    }
    EXPECT_EQ(total, 5000);
}

TEST_P(PoolTest, AnExceptionReachesTheCallerAndThePoolGoesOn) {
    Pool pool(GetParam());
    for (int round = 0; round < 20; ++round) {
        try {
            pool.run(50, [](int64_t item, int) {
                if (item == 7) {
                    throw std::runtime_error("item 7");
                }
            });
            FAIL() << "nothing was thrown";
        } catch (const std::runtime_error& error) {
            EXPECT_EQ(std::string(error.what()), "item 7");
        }
        std::atomic<int> runs{0};
        pool.run(50, [&](int64_t, int) { ++runs; });
        EXPECT_EQ(runs, 50);
    }
}

TEST_P(PoolTest, ManyRoundsSeeWhatTheRoundBeforeWrote) {
    Pool pool(GetParam());
    std::vector<int64_t> values(16, 0);
    for (int round = 0; round < 500; ++round) {
        pool.run(16, [&](int64_t item, int) {
            const int64_t neighbour = (item + round) % 16;
            values[static_cast<size_t>(neighbour)] += item;
        });
    }
    int64_t total = 0;
    for (const int64_t value : values) {
        total += value;
    }
    EXPECT_EQ(total, 500 * 120);
}

TEST(PoolSizeTest, ZeroTakesAtLeastOneThread) {
    EXPECT_GE(Pool(0).threads(), 1);
}

}  // namespace
}  // namespace accrue
