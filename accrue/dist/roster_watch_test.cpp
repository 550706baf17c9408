#include "accrue/dist/roster_watch.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RosterWatchTest, ARosterThatLacksAMemberIsToldOnce) {
    RosterWatch watch;
    std::vector<int64_t> told;
    watch.tell([&](int64_t roster) { told.push_back(roster); });
    watch.hear({.term = 7, .roster = 3, .lacks_member = true});
    EXPECT_THAT(told, IsEmpty()) << "it is in none yet";
    watch.enter(7, 3);
    watch.hear({.term = 7, .roster = 3, .lacks_member = false});
    watch.hear({.term = 7, .roster = 2, .lacks_member = true});
    watch.hear({.term = 8, .roster = 3, .lacks_member = true});
    EXPECT_THAT(told, IsEmpty()) << "all is well, or what was heard is of another roster";
    watch.hear({.term = 7, .roster = 3, .lacks_member = true});
    watch.hear({.term = 7, .roster = 3, .lacks_member = true});
    EXPECT_THAT(told, ElementsAre(3));
    watch.enter(7, 4);
    watch.hear({.term = 7, .roster = 5, .lacks_member = false});
    EXPECT_THAT(told, ElementsAre(3, 4)) << "the others have met without it";
    watch.enter(7, 6);
    watch.tell({});
    watch.hear({.term = 7, .roster = 6, .lacks_member = true});
    EXPECT_THAT(told, ElementsAre(3, 4));
}

}  // namespace
}  // namespace accrue
