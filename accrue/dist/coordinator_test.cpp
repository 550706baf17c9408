#include "accrue/dist/coordinator.h"

#include <gmock/gmock.h>

namespace accrue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Given = std::vector<int64_t>;

WindowRecord record_of(int64_t step, int64_t replay = 0) {
    return {.window = {.samples = 4}, .step = step, .replay = replay};
}

GrainLedger ledger_with(const Given& finished) {
    GrainLedger ledger(4, 1);
    for (const int64_t grain : finished) {
        ledger.grain(grain).finished = true;
    }
    return ledger;
}

// Two workers, a and b, in windows of four grains.
class CoordinatorTest : public ::testing::Test {
protected:
    CoordinatorTest() { meet({"a", "b"}); }

    // These come to meet: all who are in the present roster, or those of the first one.
    void meet(const std::vector<std::string>& workers) {
        const int64_t before = coordinator_.roster();
        for (const std::string& worker : workers) {
            (void)coordinator_.meet({.worker = worker, .term = 1, .roster = before}, 0);
        }
        ASSERT_EQ(coordinator_.members(), workers);
        (void)coordinator_.take_news();
    }
    // A new call of a worker, and the same once more.
    CallPlace call(const std::string& worker) {
        return {.worker = worker, .term = 1, .roster = coordinator_.roster(), .call = ++calls_[worker]};
    }
    CallPlace again(const std::string& worker) {
        return {.worker = worker, .term = 1, .roster = coordinator_.roster(), .call = calls_[worker]};
    }

    void begin(const WindowRecord& record, const Given& of_a = {}, const Given& of_b = {}) {
        EXPECT_FALSE(coordinator_.begin(call("a"), record, ledger_with(of_a)));
        EXPECT_TRUE(coordinator_.begin(call("b"), record, ledger_with(of_b)));
        EXPECT_TRUE(coordinator_.begin(again("a"), record, ledger_with(of_a)));
    }
    Given lease(const std::string& worker, int64_t most = 1, double now = 0) {
        return coordinator_.lease(call(worker), most, now);
    }
    void agree(const Given& of_a, const Given& of_b) {
        EXPECT_FALSE(coordinator_.agree(call("a"), ledger_with(of_a), false));
        EXPECT_TRUE(coordinator_.agree(call("b"), ledger_with(of_b), false));
    }
    Soon<Verdict> vote(const CallPlace& place, int64_t attempt = 0, uint64_t total = 3) {
        return coordinator_.vote(place, attempt, {.given = {1, 1}, .total = {2, total - 1}});
    }
    // A whole window.
    void commit(int64_t step) {
        begin(record_of(step));
        EXPECT_EQ(lease("a", 4), (Given{0, 1}));
        EXPECT_EQ(lease("b", 4), (Given{2, 3}));
        agree({0, 1}, {2, 3});
        EXPECT_FALSE(vote(call("a")));
        EXPECT_TRUE(vote(call("b"))->commits);
    }
    // What a stop after one grain each leaves behind.
    void leave_open(int64_t step) {
        begin(record_of(step));
        EXPECT_EQ(lease("a"), Given{0});
        EXPECT_EQ(lease("b"), Given{2});
        EXPECT_FALSE(coordinator_.agree(call("a"), ledger_with({0}), true));
        EXPECT_TRUE(lease("b").empty());
        EXPECT_TRUE(coordinator_.agree(call("b"), ledger_with({2}), false)->stops);
    }

    Coordinator coordinator_{{.least_workers = 2}};
    std::map<std::string, int64_t> calls_;
};

TEST_F(CoordinatorTest, AWindowIsBegunByAllOrByNobody) {
    EXPECT_FALSE(coordinator_.begin(call("a"), record_of(1), ledger_with({})));
    EXPECT_THAT([&] { (void)lease("a"); },
                ThrowsMessage<Error>(HasSubstr("worker a works in a window that not all have begun")));
}

TEST_F(CoordinatorTest, ARepeatedCallGetsTheSameAnswer) {
    begin(record_of(1));
    EXPECT_EQ(lease("a"), Given{0});
    EXPECT_EQ(coordinator_.lease(again("a"), 1, 5), Given{0});
    EXPECT_EQ(lease("a"), Given{1});
    EXPECT_EQ(lease("b", 2), (Given{2, 3}));
    EXPECT_TRUE(lease("a").empty());
    EXPECT_FALSE(coordinator_.agree(call("a"), ledger_with({0, 1}), false));
    EXPECT_TRUE(coordinator_.agree(call("b"), ledger_with({2, 3}), false));
    EXPECT_FALSE(vote(call("b")));
    EXPECT_FALSE(vote(again("b")));
    EXPECT_TRUE(vote(call("a"))->commits);
    EXPECT_FALSE(coordinator_.begin(call("a"), record_of(2), ledger_with({})));
    EXPECT_TRUE(vote(again("b"))->commits) << "b has not heard it, though a begins the next window";
}

TEST_F(CoordinatorTest, WhatAllAgreedOnIsKnownWhileOthersBeginTheReplay) {
    begin(record_of(1));
    (void)lease("a", 4);
    (void)lease("b", 4);
    EXPECT_FALSE(coordinator_.agree(call("b"), ledger_with({2, 3}), false));
    EXPECT_TRUE(coordinator_.agree(call("a"), ledger_with({0, 1}), false));
    EXPECT_FALSE(coordinator_.begin(call("a"), record_of(1, 1), ledger_with({})));
    EXPECT_EQ(coordinator_.agree(again("b"), ledger_with({2, 3}), false)->everyone, ledger_with({0, 1, 2, 3}));
    EXPECT_TRUE(coordinator_.begin(call("b"), record_of(1, 1), ledger_with({})));
    EXPECT_EQ(lease("b", 4), (Given{2, 3})) << "of the replay";
}

TEST_F(CoordinatorTest, ALateCopyOfACallChangesNothing) {
    commit(1);
    const CallPlace old_call = again("a");
    begin(record_of(2));
    EXPECT_THROW((void)coordinator_.lease(old_call, 4, 0), RosterChanged);
    EXPECT_THROW((void)coordinator_.agree(old_call, ledger_with({0, 1}), true), RosterChanged);
    EXPECT_EQ(lease("a", 4), (Given{0, 1}));
}

TEST_F(CoordinatorTest, NobodyBeginsAWindowBeforeTheLastOneCounts) {
    begin(record_of(1));
    (void)lease("a", 4);
    (void)lease("b", 4);
    agree({0, 1}, {2, 3});
    EXPECT_THAT([&] { (void)coordinator_.begin(call("a"), record_of(2), ledger_with({})); },
                ThrowsMessage<Error>(
                    HasSubstr("worker a begins step 2 (replay 0), but step 1 (replay 0) has not ended for all")));
}

TEST_F(CoordinatorTest, AReplayIsBegunOnlyWhenAllHaveAgreed) {
    begin(record_of(1));
    EXPECT_THAT([&] { (void)coordinator_.begin(call("a"), record_of(1, 1), ledger_with({})); },
                ThrowsMessage<Error>(HasSubstr("worker a begins step 1 (replay 1), but step 1 (replay 0)")));
}

TEST_F(CoordinatorTest, ANextWindowBeginsWithEmptySums) {
    commit(1);
    EXPECT_THAT(
        [&] {
            (void)coordinator_.begin(call("b"), record_of(2), ledger_with({2, 3}));
        },
        ThrowsMessage<Error>(HasSubstr("worker b begins step 2 with 2 grains in its sums, but they count no longer")));
}

TEST_F(CoordinatorTest, AWindowGoesOnInANewRosterWithWhatItsMembersHave) {
    begin(record_of(1));
    EXPECT_EQ(lease("a"), Given{0});
    EXPECT_EQ(lease("b"), Given{2});
    meet({"a", "b"});
    begin(record_of(1), {0}, {2});
    EXPECT_EQ(lease("a", 4), Given{1});
    EXPECT_EQ(lease("b", 4), Given{3});
    EXPECT_EQ(coordinator_.counts().recomputed_grains, 0);
    agree({0, 1}, {2, 3});
}

TEST_F(CoordinatorTest, GrainsOfAWorkerThatIsGoneAreComputedAgainAndCounted) {
    begin(record_of(1));
    EXPECT_EQ(lease("a", 2), (Given{0, 1}));
    EXPECT_EQ(lease("b", 2), (Given{2, 3}));
    coordinator_.beat("b", 9);
    coordinator_.look_around(11);
    (void)coordinator_.meet({.worker = "b", .term = 1, .roster = 1}, 11);
    EXPECT_THAT(coordinator_.members(), ElementsAre("b"));
    EXPECT_TRUE(coordinator_.begin(call("b"), record_of(1), ledger_with({2})));
    EXPECT_EQ(lease("b", 4), (Given{0, 1, 3})) << "3 was given to b, which has not finished it";
    EXPECT_EQ(coordinator_.counts().recomputed_grains, 2);
    EXPECT_EQ(coordinator_.counts().lost_workers, 1);
    EXPECT_THAT(coordinator_.take_news(),
                ElementsAre("worker a is gone (silent for 10 s): 1 worker goes on",
                            "step 1: 2 grains are computed again, because whoever had them is gone"));
}

TEST_F(CoordinatorTest, GrainsOfAWorkerThatWasStartedAgainAreComputedAgainToo) {
    begin(record_of(1));
    EXPECT_EQ(lease("a", 2), (Given{0, 1}));
    EXPECT_EQ(lease("b"), Given{2});
    (void)coordinator_.meet({.worker = "b"}, 0);
    (void)coordinator_.meet({.worker = "a", .term = 1, .roster = 1}, 0);
    begin(record_of(1), {0}, {});
    EXPECT_EQ(lease("a"), Given{1}) << "it has not finished it, but knows what it was given";
    EXPECT_EQ(lease("b", 4), (Given{2, 3}));
    EXPECT_EQ(coordinator_.counts().recomputed_grains, 1);
}

TEST_F(CoordinatorTest, WhoeverWasNotThereMustBeginWithEmptySums) {
    begin(record_of(1));
    EXPECT_EQ(lease("b"), Given{2});
    coordinator_.leave("b", 0);
    meet({"a"});
    EXPECT_TRUE(coordinator_.begin(call("a"), record_of(1), ledger_with({})));
    EXPECT_FALSE(coordinator_.meet({.worker = "b", .term = 1, .roster = 1}, 0));
    (void)coordinator_.meet({.worker = "a", .term = 1, .roster = 2}, 0);
    EXPECT_FALSE(coordinator_.meet({.worker = "b", .term = 1, .roster = 1}, 0)->keeps_sums);
    EXPECT_THAT([&] { (void)coordinator_.begin(call("b"), record_of(1), ledger_with({2})); },
                ThrowsMessage<Error>(HasSubstr("worker b begins step 1 with 1 grains in its sums")));
}

TEST_F(CoordinatorTest, AFasterWorkerIsGivenMoreOfTheNextWindow) {
    begin(record_of(1));
    EXPECT_EQ(lease("a", 2, 0), (Given{0, 1}));
    EXPECT_EQ(lease("b", 2, 0), (Given{2, 3}));
    EXPECT_TRUE(lease("a", 2, 2).empty()) << "1 grain a second";
    EXPECT_TRUE(lease("b", 2, 6).empty()) << "a third of it";
    agree({0, 1}, {2, 3});
    EXPECT_FALSE(vote(call("a")));
    EXPECT_TRUE(vote(call("b"))->commits);
    begin(record_of(2));
    EXPECT_EQ(lease("a", 4, 100), (Given{0, 1, 2})) << "the time between windows is nobody's";
    EXPECT_EQ(lease("b", 4, 100), Given{3});
}

TEST_F(CoordinatorTest, TheTimeAfterAStopIsNobodys) {
    leave_open(1);
    begin(record_of(1), {0}, {2});
    EXPECT_EQ(lease("a", 1, 1000), Given{1});
    EXPECT_EQ(lease("b", 1, 1000), Given{3});
    EXPECT_TRUE(lease("a", 1, 1001).empty());
    EXPECT_TRUE(lease("b", 1, 1001).empty());
    agree({0, 1}, {2, 3});
    EXPECT_FALSE(vote(call("a")));
    EXPECT_TRUE(vote(call("b"))->commits);
    begin(record_of(2));
    EXPECT_EQ(lease("a", 4, 1001), (Given{0, 1})) << "both are as fast";
}

TEST_F(CoordinatorTest, AStopLeavesTheWindowOpenForAllAndItMayGoOn) {
    leave_open(1);
    EXPECT_FALSE(vote(call("a")));
    EXPECT_TRUE(vote(call("b"))->commits);
    begin(record_of(1), {0, 2}, {});
    EXPECT_EQ(lease("a", 4), Given{1});
    EXPECT_EQ(lease("b", 4), Given{3});
    agree({0, 1, 2}, {3});
}

TEST_F(CoordinatorTest, AWindowThatWasLeftOpenIsFollowedByNoOther) {
    leave_open(1);
    EXPECT_FALSE(vote(call("a")));
    EXPECT_TRUE(vote(call("b"))->commits);
    EXPECT_THAT([&] { (void)coordinator_.begin(call("a"), record_of(2), ledger_with({})); },
                ThrowsMessage<Error>(HasSubstr("step 1 (replay 0) has not ended for all")));
}

TEST_F(CoordinatorTest, WhatWasGatheredIsRank0sAlsoForThoseWhoHaveNotHeardOfIt) {
    leave_open(1);
    EXPECT_FALSE(vote(call("b")));
    EXPECT_TRUE(vote(call("a"))->commits);
    (void)coordinator_.meet({.worker = "b", .term = 1, .roster = 1}, 0);
    EXPECT_TRUE(coordinator_.meet({.worker = "a", .term = 1, .roster = 1}, 0)->keeps_sums);
    EXPECT_FALSE(coordinator_.meet({.worker = "b", .term = 1, .roster = 1}, 0)->keeps_sums);
    begin(record_of(1), {0, 2}, {});
}

TEST_F(CoordinatorTest, WhereTheLeaderAsksToStopNobodyIsGivenAnythingUntilTheNextTask) {
    coordinator_.set_task("first");
    coordinator_.ask_to_stop();
    begin(record_of(1));
    EXPECT_TRUE(lease("a").empty());
    EXPECT_FALSE(coordinator_.agree(call("a"), ledger_with({}), false));
    EXPECT_TRUE(coordinator_.agree(call("b"), ledger_with({}), false)->stops);
    meet({"a", "b"});
    begin(record_of(1));
    EXPECT_TRUE(lease("b").empty()) << "also in another roster";
    EXPECT_FALSE(coordinator_.agree(call("a"), ledger_with({}), false));
    EXPECT_TRUE(coordinator_.agree(call("b"), ledger_with({}), false)->stops);
    coordinator_.set_task("second");
    begin(record_of(1));
    EXPECT_EQ(lease("a"), Given{0});
    coordinator_.ask_to_stop();
    EXPECT_TRUE(lease("b").empty()) << "also in the middle of a window";
}

TEST_F(CoordinatorTest, AnExchangeThatDoesNotCountIsDoneAgainAndTold) {
    begin(record_of(1));
    (void)lease("a", 4);
    (void)lease("b", 4);
    agree({0, 1}, {2, 3});
    EXPECT_FALSE(vote(call("a"), 0));
    const auto verdict = vote(call("b"), 0, 77);
    EXPECT_FALSE(verdict->commits);
    EXPECT_EQ(verdict->fault, "worker b got another sum of range 1 than was given");
    EXPECT_FALSE(vote(again("a"), 0)->commits);
    EXPECT_EQ(coordinator_.counts().faults, 1);
    EXPECT_THAT(coordinator_.take_news(),
                ElementsAre("step 1: the sums are exchanged again, because " + verdict->fault));
    EXPECT_FALSE(vote(call("b"), 1));
    EXPECT_TRUE(vote(call("a"), 1)->commits);
    EXPECT_THAT(coordinator_.take_news(), IsEmpty());
}

TEST_F(CoordinatorTest, ATaskIsGivenAgainInANewRosterAndDoneAnew) {
    EXPECT_FALSE(coordinator_.task_after(call("a"), 0));
    coordinator_.set_task("go");
    EXPECT_EQ(coordinator_.task_after(again("a"), 0), (Task{.number = 1, .words = "go"}));
    EXPECT_EQ(coordinator_.task_after(call("b"), 0)->number, 1);
    EXPECT_FALSE(coordinator_.done(call("a"), 1, "done"));
    meet({"a", "b"});
    EXPECT_EQ(coordinator_.task_after(call("a"), 0)->words, "go");
    EXPECT_EQ(coordinator_.task_after(call("b"), 0)->words, "go");
    EXPECT_FALSE(coordinator_.done(call("b"), 1, "done")) << "a has said it elsewhere";
    EXPECT_EQ(coordinator_.done(call("a"), 1, "done"), "done");
    EXPECT_EQ(coordinator_.done(again("b"), 1, "done"), "done");
    EXPECT_FALSE(coordinator_.task_after(call("a"), 1));
}

TEST_F(CoordinatorTest, AnErrorEndsTheRunForEverybody) {
    coordinator_.set_task("go");
    (void)coordinator_.task_after(call("a"), 0);
    (void)coordinator_.task_after(call("b"), 0);
    EXPECT_FALSE(coordinator_.done(call("a"), 1, "hash 1"));
    const auto told = ThrowsMessage<Error>(HasSubstr("task 1: worker b says \"hash 2\", but worker a says \"hash 1\""));
    EXPECT_THAT([&] { (void)coordinator_.done(call("b"), 1, "hash 2"); }, told);
    EXPECT_THAT([&] { (void)coordinator_.done(again("a"), 1, "hash 1"); }, told);
    EXPECT_THAT([&] { (void)lease("a"); }, told);
    EXPECT_THAT([&] { (void)coordinator_.meet({.worker = "c"}, 0); }, told);
}

TEST_F(CoordinatorTest, WhoLeadsTheRunSeesTheMembersAndTheirSteps) {
    (void)coordinator_.meet({.worker = "c", .step = 8}, 0);
    EXPECT_FALSE(coordinator_.is_formed());
    EXPECT_EQ(coordinator_.roster(), 1);
    EXPECT_THAT(coordinator_.members(), ElementsAre("a", "b"));
    (void)coordinator_.meet({.worker = "a", .term = 1, .roster = 1, .step = 9}, 0);
    (void)coordinator_.meet({.worker = "b", .term = 1, .roster = 1}, 0);
    EXPECT_TRUE(coordinator_.is_formed());
    EXPECT_EQ(coordinator_.roster(), 2);
    EXPECT_THAT(coordinator_.members(), ElementsAre("a", "b", "c"));
    EXPECT_THAT(coordinator_.steps(), ElementsAre(9, -1, 8));
    EXPECT_THAT(coordinator_.take_news(), ElementsAre("worker c joined: 3 workers"));
}

}  // namespace
}  // namespace accrue
