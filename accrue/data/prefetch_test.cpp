#include "accrue/data/prefetch.h"

#include <atomic>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(PrefetchTest, ItemsComeInOrderAndThenNothing) {
    for (const size_t ahead : {size_t{1}, size_t{2}}) {
        int next = 0;
        Prefetch<int> items([&]() -> std::optional<int> { return next < 1000 ? std::optional(next++) : std::nullopt; },
                            ahead);
        for (int i = 0; i < 1000; ++i) {
            EXPECT_EQ(items.next(), i);
        }
        EXPECT_EQ(items.next(), std::nullopt);
        EXPECT_EQ(items.next(), std::nullopt) << "the end stays the end";
    }
}

TEST(PrefetchTest, ItemsNeedNotBeCopied) {
    bool given = false;
    Prefetch<std::unique_ptr<int>> items([&]() -> std::optional<std::unique_ptr<int>> {
        return std::exchange(given, true) ? std::nullopt : std::optional(std::make_unique<int>(7));
    });
    EXPECT_EQ(**items.next(), 7);
    EXPECT_EQ(items.next(), std::nullopt);
}

TEST(PrefetchTest, NoMoreThanTheBoundIsLoadedAhead) {
    std::atomic<int> loaded = 0;
    {
        Prefetch<int> items([&]() -> std::optional<int> { return loaded++; }, 2);
        for (int taken = 0; taken < 200; ++taken) {
            EXPECT_LE(loaded.load(), taken + 2);
            EXPECT_EQ(items.next(), taken);
        }
    }
    EXPECT_LE(loaded.load(), 202);
}

TEST(PrefetchTest, AnExceptionComesAfterTheItemsBeforeIt) {
    int next = 0;
    Prefetch<int> items(
        [&]() -> std::optional<int> {
            if (next == 2) {
                throw std::runtime_error("the disk is gone");
            }
            return next++;
        },
        2);
    EXPECT_EQ(items.next(), 0);
    EXPECT_EQ(items.next(), 1);
    EXPECT_THROW((void)items.next(), std::runtime_error);
    EXPECT_THROW((void)items.next(), std::runtime_error) << "a failure stays a failure";
    EXPECT_EQ(next, 2) << "nothing is loaded after a failure";
}

TEST(PrefetchTest, ItCanBeDroppedAtAnyTime) {
    for (int taken = 0; taken < 50; ++taken) {
        Prefetch<int> items([]() -> std::optional<int> { return 1; }, 1 + taken % 2);
        for (int i = 0; i < taken; ++i) {
            EXPECT_EQ(items.next(), 1);
        }
    }
}

}  // namespace
}  // namespace accrue
