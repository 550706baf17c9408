#include "accrue/dist/reply_room.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(ReplyRoomTest, WhoGetsNoRoomIsToldWhenThereIsSome) {
    int told = 0;
    ReplyRoom room(100, [&] { ++told; });
    auto first = room.take(60);
    auto second = room.take(40);
    EXPECT_TRUE(first && second);
    second.reset();
    EXPECT_EQ(told, 0) << "nobody was refused";
    EXPECT_FALSE(room.take(41));
    EXPECT_FALSE(room.take(50));
    first.reset();
    EXPECT_EQ(told, 1);
    EXPECT_TRUE(room.take(100));
}

// Otherwise it would wait for ever.
TEST(ReplyRoomTest, OneThatIsLargerThanAllGoesAlone) {
    ReplyRoom room(100, [] {});
    auto large = room.take(1000);
    EXPECT_TRUE(large);
    EXPECT_FALSE(room.take(1));
    large.reset();
    EXPECT_TRUE(room.take(1));
}

}  // namespace
}  // namespace accrue
