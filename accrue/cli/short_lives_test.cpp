#include "accrue/cli/short_lives.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kShort = ShortLives::kShortSeconds / 2;
constexpr double kLong = ShortLives::kShortSeconds * 2;

TEST(ShortLives, TheLastOfTooManyInARowEndsTheRun) {
    ShortLives lives;
    for (int64_t life = 1; life < ShortLives::kMostInARow; ++life) {
        lives.note_killed(SIGKILL, kShort);
    }
    EXPECT_THAT(
        [&] { lives.note_killed(SIGBUS, kShort); },
        ThrowsMessage<Error>(HasSubstr("killed again and again soon after their start (the last one by signal 7")));
}

TEST(ShortLives, ALongLifeBetweenThemBeginsTheCountAnew) {
    ShortLives lives;
    for (int64_t life = 0; life < 10 * ShortLives::kMostInARow; ++life) {
        lives.note_killed(SIGKILL, life % ShortLives::kMostInARow == 0 ? kLong : kShort);
    }
}

}  // namespace
}  // namespace accrue
