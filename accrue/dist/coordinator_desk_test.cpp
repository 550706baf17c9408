#include "accrue/dist/coordinator_desk.h"

#include <atomic>
#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "accrue/dist/link.h"

namespace accrue {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

class CoordinatorDeskTest : public ::testing::Test {
protected:
    // Alone in the first roster.
    CallPlace meet() {
        const Soon<Roster> roster = desk_.meet({.worker = "a", .step = 0}, milliseconds(0));
        EXPECT_TRUE(roster);
        return {.worker = "a", .term = roster->term, .roster = roster->number, .call = 1};
    }

    CoordinatorDesk desk_{{.term = 7, .silence_seconds = 60}};
};

TEST_F(CoordinatorDeskTest, WithoutTimeThereIsNoAnswerYet) {
    EXPECT_FALSE(desk_.task_after(meet(), 0, milliseconds(0)));
}

TEST_F(CoordinatorDeskTest, ANewTaskReachesWhoWaitsForIt) {
    const CallPlace place = meet();
    auto task = std::async(std::launch::async, [&] { return desk_.task_after(place, 0, minutes(1)); });
    EXPECT_EQ(desk_.set_task("train"), 1);
    EXPECT_EQ(task.get(), (Task{.number = 1, .words = "train"}));
}

TEST_F(CoordinatorDeskTest, WhoGivesUpWaitingForATaskMayWaitAgain) {
    CallPlace place = meet();
    const int64_t task = desk_.set_task("train");
    EXPECT_FALSE(desk_.task_answer(task, [] { return true; }));
    EXPECT_TRUE(desk_.task_after(place, 0, milliseconds(0)));
    ++place.call;
    EXPECT_EQ(desk_.done(place, task, "hash", milliseconds(0)), "hash");
    EXPECT_EQ(desk_.task_answer(task, [] { return true; }), "hash");
}

TEST_F(CoordinatorDeskTest, TheAnswerOfATaskThatWasNotSetIsAnError) {
    EXPECT_THROW((void)desk_.task_answer(1, [] { return true; }), Error);
}

TEST_F(CoordinatorDeskTest, WhoeverKnowsThatAWorkerIsGoneEndsTheRoster) {
    const CallPlace place = meet();
    EXPECT_EQ(desk_.standing().members, std::vector<std::string>{"a"});
    EXPECT_TRUE(desk_.standing().is_formed);
    (void)desk_.take_news();
    desk_.leave("a");
    EXPECT_FALSE(desk_.standing().is_formed);
    EXPECT_THROW((void)desk_.task_after(place, 0, minutes(1)), RosterChanged);
    EXPECT_EQ(desk_.take_news().size(), 1U);
}

TEST_F(CoordinatorDeskTest, ClosingEndsAllWaiting) {
    const CallPlace place = meet();
    auto task = std::async(std::launch::async, [&] { return desk_.task_after(place, 0, minutes(1)); });
    auto key = std::async(std::launch::async,
                          [&] { return desk_.value_of_key({.term = 7, .roster = 1, .key = "address"}, minutes(1)); });
    desk_.close();
    EXPECT_THROW((void)task.get(), CoordinatorLost);
    EXPECT_THROW((void)key.get(), CoordinatorLost);
    EXPECT_THROW(desk_.beat("a"), CoordinatorLost);
}

TEST_F(CoordinatorDeskTest, KeysOfAnotherTermOrRosterAreRefused) {
    (void)meet();
    EXPECT_NO_THROW(desk_.set_key({.term = 7, .roster = 1, .key = "address"}, "here"));
    EXPECT_THROW(desk_.set_key({.term = 6, .roster = 1, .key = "address"}, "there"), RosterChanged);
    EXPECT_THROW(desk_.set_key({.term = 7, .roster = 2, .key = "address"}, "there"), RosterChanged);
    EXPECT_EQ(desk_.value_of_key({.term = 7, .roster = 1, .key = "address"}, milliseconds(0)), "here");
}

TEST_F(CoordinatorDeskTest, AChangeWakesWhoWaitsForAny) {
    const int64_t seen = desk_.changes_after(0, minutes(1));
    auto changes = std::async(std::launch::async, [&] { return desk_.changes_after(seen, minutes(1)); });
    desk_.note_change();
    EXPECT_GT(changes.get(), seen);
}

}  // namespace
}  // namespace accrue
