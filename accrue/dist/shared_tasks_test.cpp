#include "accrue/dist/shared_tasks.h"

#include <gmock/gmock.h>

namespace accrue {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Task kFourth{.number = 4, .words = "go on"};
const Task kFifth{.number = 5, .words = "stop"};

class SharedTasksTest : public ::testing::Test {
protected:
    SharedTasks tasks_{{"a", "b"}};
};

TEST_F(SharedTasksTest, WhatOneMemberIsGivenAllAreGivenAndThenTheNext) {
    EXPECT_FALSE(tasks_.after(0, 0, Task{}));
    EXPECT_EQ(tasks_.after(0, 0, kFourth), kFourth);
    EXPECT_EQ(tasks_.after(1, 0, kFifth), kFourth) << "there is a newer one, but a is at the fourth";
    EXPECT_FALSE(tasks_.done(0, 4, "done"));
    EXPECT_EQ(tasks_.done(1, 4, "done"), "done");
    EXPECT_FALSE(tasks_.after(1, 4, kFourth));
    EXPECT_EQ(tasks_.after(1, 4, kFifth), kFifth);
    EXPECT_EQ(tasks_.after(0, 0, kFifth), kFifth);
}

TEST_F(SharedTasksTest, WhoeverAsksAgainHearsTheSameAlsoWhenOthersHaveGoneOn) {
    (void)tasks_.after(0, 0, kFourth);
    EXPECT_FALSE(tasks_.done(1, 4, "done"));
    EXPECT_FALSE(tasks_.done(1, 4, "done"));
    EXPECT_EQ(tasks_.done(0, 4, "done"), "done");
    (void)tasks_.after(0, 4, kFifth);
    EXPECT_FALSE(tasks_.done(0, 5, "stopped"));
    EXPECT_EQ(tasks_.done(1, 4, "done"), "done") << "b has not heard it";
    EXPECT_EQ(tasks_.done(1, 5, "stopped"), "stopped");
}

TEST_F(SharedTasksTest, WhoeverSaysSomethingElseThanRank0IsNamed) {
    (void)tasks_.after(0, 0, kFourth);
    EXPECT_FALSE(tasks_.done(1, 4, "hash 1"));
    const auto named = ThrowsMessage<Error>(HasSubstr(
        "task 4: worker b says \"hash 1\", but worker a says \"hash 2\": bits differ. All workers need the same"));
    EXPECT_THAT([&] { (void)tasks_.done(0, 4, "hash 2"); }, named);
    EXPECT_THAT([&] { (void)tasks_.done(1, 4, "hash 1"); }, named) << "whoever asks hears it";
}

TEST_F(SharedTasksTest, TasksOfOtherRostersAreAnError) {
    EXPECT_THAT([&] { (void)tasks_.after(1, 3, kFourth); },
                ThrowsMessage<Error>(HasSubstr("worker b asks for the task after 3, but in this roster none is done")));
    EXPECT_THAT([&] { (void)tasks_.done(1, 4, "done"); },
                ThrowsMessage<Error>(HasSubstr("worker b has done task 4, but was given task 0")));
}

}  // namespace
}  // namespace accrue
