#include "accrue/dist/range_keepers.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "accrue/base/random.h"

namespace accrue {
namespace {

using Held = std::vector<std::vector<int64_t>>;

Held held_of(const RangeKeepers& keepers, int64_t members) {
    Held held;
    for (int64_t rank = 0; rank < members; ++rank) {
        held.push_back(ranges_kept_by(keepers, rank));
    }
    return held;
}

void expect_room_and_no_range_twice(const StateSharing& sharing, const RangeKeepers& keepers, int64_t members) {
    ASSERT_EQ(std::ssize(keepers), sharing.ranges);
    for (const auto& each : keepers) {
        EXPECT_EQ(std::set<int64_t>(each.begin(), each.end()).size(), each.size());
    }
    for (const auto& each : held_of(keepers, members)) {
        EXPECT_LE(std::ssize(each), sharing.copies);
    }
}

TEST(RangeKeepersTest, ARunBeginsWithAllItsCopies) {
    for (const int64_t members : {3, 4, 5, 8, 100}) {
        for (const int64_t copies : {1, 2, 3}) {
            const StateSharing sharing{.ranges = members, .copies = copies};
            const RangeKeepers keepers = first_keepers(sharing, members).value();
            expect_room_and_no_range_twice(sharing, keepers, members);
            std::set<int64_t> owners;
            for (const auto& each : keepers) {
                EXPECT_EQ(std::ssize(each), copies);
                owners.insert(each.front());
            }
            EXPECT_EQ(std::ssize(owners), members) << "each owns one";
        }
    }
}

TEST(RangeKeepersTest, FewerMembersBeginIfThereIsRoom) {
    const StateSharing sharing{.ranges = 5, .copies = 2};
    EXPECT_EQ(sharing.least_members(), 3);
    EXPECT_FALSE(first_keepers(sharing, 2));
    const RangeKeepers keepers = first_keepers(sharing, 3).value();
    expect_room_and_no_range_twice(sharing, keepers, 3);
    EXPECT_TRUE(std::ranges::none_of(keepers, &std::vector<int64_t>::empty));
}

TEST(RangeKeepersTest, WhoeverIsLeftOwnsWhatItHeld) {
    const StateSharing sharing{.ranges = 3, .copies = 2};
    Held held = held_of(first_keepers(sharing, 3).value(), 3);
    held.erase(held.begin() + 1);
    const RangeKeepers keepers = keepers_after(sharing, held).value();
    for (int64_t range = 0; range < 3; ++range) {
        const int64_t owner = keepers[static_cast<size_t>(range)].front();
        const auto& holds = held[static_cast<size_t>(owner)];
        EXPECT_NE(std::ranges::find(holds, range), holds.end()) << "only who holds it can give it";
    }
}

TEST(RangeKeepersTest, ARangeWithoutAKeeperIsLost) {
    EXPECT_FALSE(keepers_after({.ranges = 3, .copies = 2}, Held{{0, 1}, {}}));
    EXPECT_TRUE(keepers_after({.ranges = 3, .copies = 2}, Held{{0, 1}, {2}}));
}

TEST(RangeKeepersTest, WhoeverJoinsGetsWhatHasTooFewKeepers) {
    const StateSharing sharing{.ranges = 4, .copies = 2};
    const RangeKeepers keepers = keepers_after(sharing, Held{{0, 1}, {1, 2}, {2, 3}, {}}).value();
    EXPECT_EQ(ranges_kept_by(keepers, 3), (std::vector<int64_t>{0, 3}));
    EXPECT_NE(keepers[0].front(), 3) << "it has to get it first";
}

// Whoever comes when everything has its keepers only computes.
TEST(RangeKeepersTest, MoreMembersThanRangesChangeNothing) {
    const StateSharing sharing{.ranges = 3, .copies = 2};
    Held held = held_of(first_keepers(sharing, 3).value(), 3);
    held.emplace_back();
    const RangeKeepers keepers = keepers_after(sharing, held).value();
    EXPECT_TRUE(ranges_kept_by(keepers, 3).empty());
}

// 10,000 random histories: whatever happens, nothing is lost as long as somebody holds it, and as soon as enough are there each
// range has all its copies. (What is held never moves, so with as many members as ranges one may lack a copy.)
TEST(RangeKeepersTest, AnyHistoryKeepsWhatSomebodyHolds) {
    for (uint64_t history = 0; history < 10'000; ++history) {
        uint64_t dice = mix(history);
        const auto roll = [&](int64_t sides) {
            return static_cast<int64_t>((dice = mix(dice)) % static_cast<uint64_t>(sides));
        };
        const StateSharing sharing{.ranges = 2 + roll(6), .copies = 1 + roll(3)};
        Held held = held_of(first_keepers(sharing, sharing.ranges).value(), sharing.ranges);
        for (int change = 0; change < 6 && !held.empty(); ++change) {
            if (roll(2) == 0) {
                held.emplace_back();
            } else {
                held.erase(held.begin() + roll(std::ssize(held)));
            }
            std::set<int64_t> somebody;
            for (const auto& each : held) {
                somebody.insert(each.begin(), each.end());
            }
            const auto keepers = keepers_after(sharing, held);
            ASSERT_EQ(keepers.has_value(), std::ssize(somebody) == sharing.ranges);
            if (!keepers) {
                break;
            }
            expect_room_and_no_range_twice(sharing, *keepers, std::ssize(held));
            if (std::ssize(held) >= sharing.ranges + sharing.copies - 1) {
                EXPECT_TRUE(
                    std::ranges::all_of(*keepers, [&](const auto& each) { return std::ssize(each) >= sharing.copies; }))
                    << "history " << history;
            }
            for (size_t rank = 0; rank < held.size(); ++rank) {
                const auto kept = ranges_kept_by(*keepers, static_cast<int64_t>(rank));
                EXPECT_TRUE(std::ranges::includes(kept, held[rank])) << "what is held stays";
                held[rank] = kept;
            }
        }
    }
}

}  // namespace
}  // namespace accrue
