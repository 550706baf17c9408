#include "accrue/base/long_work.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using testing::Each;

TEST(LongWorkTest, EachItemIsDoneOnceWithAndWithoutThreads) {
    Pool four(4);
    for (Pool* pool : {static_cast<Pool*>(nullptr), &four}) {
        std::vector<int> times(100, 0);
        LongWork{.pool = pool}.run(100, [&](int64_t item) { ++times[static_cast<size_t>(item)]; });
        EXPECT_THAT(times, Each(1));
    }
}

TEST(LongWorkTest, WhoeverIsToldSeesTheWorkGrowFromNothingToAll) {
    Pool pool(4);
    std::vector<int64_t> seen;  // not guarded: one thread tells at a time
    const LongWork work{.pool = &pool, .told = [&](int64_t done, int64_t total) {
                            EXPECT_EQ(total, 100);
                            seen.push_back(done);
                        }};
    WorkCount count(work, 100);
    EXPECT_EQ(seen, std::vector<int64_t>{0}) << "work that has just begun is shown too";
    work.run(100, [&](int64_t) { count.add(1); });
    std::vector<int64_t> expected(101);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
}

TEST(LongWorkTest, AnErrorInAnItemIsTheErrorOfTheWork) {
    Pool pool(2);
    for (Pool* threads : {static_cast<Pool*>(nullptr), &pool}) {
        EXPECT_THROW(LongWork{.pool = threads}.run(10,
                                                   [](int64_t item) {
                                                       if (item == 7) {
                                                           throw Error("the eighth");
                                                       }
                                                   }),
                     Error);
    }
}

}  // namespace
}  // namespace accrue
