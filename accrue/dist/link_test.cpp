#include "accrue/dist/link.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "accrue/base/clock.h"
#include "accrue/dist/in_process_link.h"
#include "accrue/dist/link_testing.h"
#include "accrue/dist/members_testing.h"

// Of every link; links to another process are instances of these tests too (grpc_link_test.cpp).
namespace accrue::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

const auto kNever = [] { return false; };
const std::vector<Outcome> kAllDone(3);

std::string name_of(int64_t number) {
    return std::string(1, static_cast<char>('a' + number));
}

// Three workers meet, and when all have met, each does work(worker) in a thread.
std::vector<Outcome> three_meet(LinkPlace& place, const std::function<void(TestWorker&)>& work) {
    std::vector<TestWorker> workers;
    for (int64_t number = 0; number < 3; ++number) {
        workers.emplace_back(name_of(number), place.link(name_of(number)));
    }
    const auto of = [&](int64_t number) -> TestWorker& { return workers[static_cast<size_t>(number)]; };
    const auto outcomes = each_in_a_thread(3, [&](int64_t number) { of(number).meet(); });
    return outcomes == kAllDone ? each_in_a_thread(3, [&](int64_t number) { work(of(number)); }) : outcomes;
}

TEST_P(LinkTest, ThreeWorkersComputeEachGrainOnce) {
    open();
    const WindowRecord record = window_of(20);
    std::mutex mutex;
    std::multiset<int64_t> computed;
    const int64_t task = desk().set_task("one step");
    const auto outcomes = three_meet(place(), [&](TestWorker& worker) {
        EXPECT_EQ(worker.roster().workers, (std::vector<std::string>{"a", "b", "c"}));
        EXPECT_EQ(worker.link().task_after(worker.next_place(), 0), (Task{.number = 1, .words = "one step"}));
        GrainLedger everyone;
        const std::set<int64_t> mine = worker.compute(record, everyone);
        EXPECT_TRUE(everyone.missing().empty());
        EXPECT_EQ(everyone.loss_sum(), 0.5 * 190);
        EXPECT_TRUE(worker.vote(0).commits);
        EXPECT_EQ(worker.link().done(worker.next_place(), 1, "hash 5"), "hash 5");
        const std::lock_guard lock(mutex);
        computed.insert(mine.begin(), mine.end());
    });
    EXPECT_EQ(outcomes, kAllDone);
    EXPECT_EQ(desk().task_answer(task, kNever), "hash 5");
    EXPECT_EQ(computed.size(), 20U);
    EXPECT_EQ(std::set(computed.begin(), computed.end()).size(), 20U);
}

TEST_P(LinkTest, ARepeatedCallGetsTheSameAnswer) {
    open({.silence_seconds = 60, .least_workers = 1});
    TestWorker worker("a", place().link("a"));
    worker.meet();
    const GrainLedger nothing(6, kTensorsOfWindow);
    worker.link().begin(worker.next_place(), window_of(6), nothing);
    const CallPlace call = worker.next_place();
    const std::vector<int64_t> given = worker.link().lease(call, 2);
    EXPECT_EQ(given.size(), 2U);
    EXPECT_EQ(worker.link().lease(call, 2), given);
}

TEST_P(LinkTest, SumsThatDoNotAddUpDoNotCount) {
    open();
    EXPECT_EQ(three_meet(place(),
                         [&](TestWorker& worker) {
                             GrainLedger everyone;
                             (void)worker.compute(window_of(5), everyone);
                             const Verdict verdict = worker.vote(0, worker.roster().rank == 1 ? 1 : 0);
                             EXPECT_FALSE(verdict.commits);
                             EXPECT_NE(verdict.fault.find("worker b"), std::string::npos) << verdict.fault;
                             EXPECT_TRUE(worker.vote(1).commits);
                         }),
              kAllDone);
    EXPECT_EQ(desk().standing().counts.faults, 1);
}

TEST_P(LinkTest, WhoWaitsLearnsThatAWorkerHasLeft) {
    open();
    const auto outcomes = three_meet(place(), [&](TestWorker& worker) {
        if (worker.roster().rank == 2) {
            worker.link().leave();
        } else {
            worker.link().begin(worker.next_place(), window_of(5), GrainLedger(5, kTensorsOfWindow));
        }
    });
    EXPECT_EQ(outcomes[0], Outcome::As::roster_changed);
    EXPECT_EQ(outcomes[1], Outcome::As::roster_changed);
    EXPECT_EQ(outcomes[2], Outcome::As::done);
}

TEST_P(LinkTest, TheOthersGoOnWithoutAWorkerThatHasLeft) {
    open();
    EXPECT_EQ(three_meet(place(),
                         [&](TestWorker& worker) {
                             if (worker.roster().rank == 0) {
                                 worker.link().leave();
                                 return;
                             }
                             EXPECT_THROW((void)worker.link().task_after(worker.next_place(), 0), RosterChanged);
                             EXPECT_EQ(worker.meet().workers, (std::vector<std::string>{"b", "c"}));
                             EXPECT_EQ(worker.roster().number, 2);
                             EXPECT_TRUE(worker.roster().keeps_sums);
                         }),
              kAllDone);
}

// A timeout is the subject.
TEST_P(LinkTest, AWorkerThatIsKilledIsMissedAfterItsSilence) {
    open({.silence_seconds = 1, .least_workers = 3});
    const auto outcomes = three_meet(place(), [&](TestWorker& worker) {
        if (worker.roster().rank == 2) {
            worker.end();
        } else {
            (void)worker.link().task_after(worker.next_place(), 0);
        }
    });
    EXPECT_EQ(outcomes[0], Outcome::As::roster_changed);
    EXPECT_EQ(outcomes[1], Outcome::As::roster_changed);
    EXPECT_GE(desk().standing().counts.lost_workers, 1) << "on a busy machine, others may seem silent too";
}

// A timeout is the subject.
TEST_P(LinkTest, WhoWaitsForAWorkerThatIsGoneIsToldWithoutAskingForAnything) {
    open({.silence_seconds = 2, .least_workers = 2});
    std::vector<std::unique_ptr<TestWorker>> workers;
    for (const char* const name : {"a", "b"}) {
        workers.push_back(std::make_unique<TestWorker>(name, place().link(name)));
    }
    std::promise<int64_t> told;
    workers[0]->link().tell_when_roster_ends([&](int64_t roster) { told.set_value(roster); });
    std::jthread other([&] { (void)workers[1]->meet(); });
    const int64_t roster = workers[0]->meet().number;
    other.join();
    workers[1]->end();
    EXPECT_EQ(told.get_future().get(), roster);
    workers[0]->link().tell_when_roster_ends({});
}

// A timeout is the subject.
TEST_P(LinkTest, AWorkerThatComputesForLongIsNotLost) {
    open({.silence_seconds = 2, .least_workers = 1});
    TestWorker worker("a", place().link("a"));
    worker.meet();
    const auto start = Clock::now();
    while (seconds_since(start) < 3) {
        (void)desk().changes_after(desk().changes_after(0, milliseconds(0)), milliseconds(50));
    }
    EXPECT_TRUE(desk().standing().is_formed);
    EXPECT_EQ(desk().standing().counts.lost_workers, 0);
}

TEST_P(LinkTest, AKeyIsWaitedFor) {
    open();
    const std::string bytes("\0\xff\xfe", 3);
    EXPECT_EQ(three_meet(place(),
                         [&](TestWorker& worker) {
                             if (worker.roster().rank == 0) {
                                 worker.link().set("address", bytes);
                             } else {
                                 EXPECT_EQ(worker.link().get("address", minutes(1)), bytes);
                             }
                         }),
              kAllDone);
}

TEST_P(LinkTest, AKeyThatNobodySetsEndsTheRosterForWhoeverWaits) {
    open({.silence_seconds = 60, .least_workers = 1});
    TestWorker worker("a", place().link("a"));
    worker.meet();
    EXPECT_THROW((void)worker.link().get("address", milliseconds(20)), RosterChanged);
}

TEST_P(LinkTest, WhoWaitsForAKeyLearnsThatAWorkerHasLeft) {
    open();
    const auto outcomes = three_meet(place(), [&](TestWorker& worker) {
        if (worker.roster().rank == 1) {
            worker.link().leave();
        } else {
            (void)worker.link().get("address", minutes(1));
        }
    });
    EXPECT_EQ(outcomes[0], Outcome::As::roster_changed);
    EXPECT_EQ(outcomes[2], Outcome::As::roster_changed);
}

TEST_P(LinkTest, KeysEndWithTheirRoster) {
    open({.silence_seconds = 60, .least_workers = 1});
    TestWorker first("a", place().link("a"));
    first.meet();
    first.link().set("address", "of the first roster");
    const auto require_no_key = [](TestWorker& worker) {
        EXPECT_EQ(worker.meet().workers.size(), 2U);
        EXPECT_THROW((void)worker.link().get("address", milliseconds(20)), RosterChanged);
    };
    EXPECT_EQ(each_in_a_thread(2,
                               [&](int64_t number) {
                                   if (number == 0) {
                                       EXPECT_THROW((void)first.link().task_after(first.next_place(), 0),
                                                    RosterChanged);
                                       require_no_key(first);
                                   } else {
                                       TestWorker second("b", place().link("b"));
                                       require_no_key(second);
                                   }
                               }),
              std::vector<Outcome>(2));
}

TEST_P(LinkTest, AQuestionAndItsAnswerMayBeLarge) {
    open();
    const std::string question(size_t{1} << 20, '\xfe');
    EXPECT_EQ(place().link("a")->ask("data", question), "a asks for data: " + question);
}

TEST_P(LinkTest, AnErrorOfAnAnswerHasItsWords) {
    open();
    try {
        (void)place().link("a")->ask("error", "no such file: \xc3\xa4");
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "no such file: \xc3\xa4");
    }
}

TEST_P(LinkTest, WhatDiffersEndsTheRunForEverybody) {
    open();
    const int64_t task = desk().set_task("one step");
    const auto outcomes = three_meet(place(), [&](TestWorker& worker) {
        (void)worker.link().task_after(worker.next_place(), 0);
        (void)worker.link().done(worker.next_place(), 1, worker.roster().rank == 2 ? "hash 6" : "hash 5");
    });
    for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome, Outcome::As::error);
        EXPECT_NE(outcome.message.find("bits differ"), std::string::npos) << outcome.message;
    }
    EXPECT_THROW((void)desk().task_answer(task, kNever), Error);
}

TEST_P(LinkTest, WithoutACoordinatorCallsFail) {
    open();
    std::atomic<int64_t> met = 0;
    std::atomic<int64_t> lost = 0;
    std::jthread end([&] {
        for (int64_t value = met; value < 3; value = met) {
            met.wait(value);
        }
        place().end();
    });
    EXPECT_EQ(three_meet(place(),
                         [&](TestWorker& worker) {
                             ++met;
                             met.notify_all();
                             try {
                                 (void)worker.link().task_after(worker.next_place(), 0);
                             } catch (const CoordinatorLost&) {
                                 ++lost;
                             }
                         }),
              kAllDone);
    EXPECT_EQ(lost, 3);
}

class InProcessPlace final : public LinkPlace {
public:
    InProcessPlace(const Coordinator::Options& options, Answers& answers) : LinkPlace(options), answers_(answers) {}
    std::unique_ptr<Link> link(const std::string& worker) override {
        return std::make_unique<InProcessLink>(desk(), answers_, worker);
    }

private:
    Answers& answers_;
};

INSTANTIATE_TEST_SUITE_P(InProcess, LinkTest,
                         ::testing::Values(LinkKind{"in_process",
                                                    [](const Coordinator::Options& options, Answers& answers) {
                                                        return std::make_unique<InProcessPlace>(options, answers);
                                                    }}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace accrue::testing
