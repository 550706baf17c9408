#include "accrue/dist/rosters.h"

#include <gmock/gmock.h>

namespace accrue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Names = std::vector<std::string>;

class RostersTest : public ::testing::Test {
protected:
    static MeetRequest first_request(const std::string& worker) { return {.worker = worker}; }
    // Of a worker that was in the present roster.
    [[nodiscard]] MeetRequest next_request(const std::string& worker, int64_t step = 3) const {
        return {.worker = worker, .term = rosters_.term(), .roster = rosters_.number(), .step = step};
    }
    Soon<Roster> meet(const MeetRequest& request, double now = 0) { return rosters_.meet(request, now); }
    // Forms the first roster.
    void form(const Names& workers) {
        rosters_ = Rosters({.term = 7, .silence_seconds = 10, .least_workers = std::ssize(workers)});
        for (const std::string& worker : workers) {
            (void)meet(first_request(worker));
        }
        ASSERT_TRUE(rosters_.is_formed());
        (void)rosters_.take_news();
    }
    // Each makes a call in the present one.
    void call(const Names& workers) {
        for (const std::string& worker : workers) {
            (void)rosters_.enter(place_of(worker));
        }
    }
    [[nodiscard]] CallPlace place_of(const std::string& worker, int64_t number = 1) const {
        return {.worker = worker, .term = rosters_.term(), .roster = rosters_.number(), .call = number};
    }

    Rosters rosters_{{}};
};

TEST_F(RostersTest, TheFirstRosterIsFormedWhenEnoughHaveCome) {
    rosters_ = Rosters({.term = 7, .least_workers = 2});
    EXPECT_FALSE(meet(first_request("b")));
    EXPECT_FALSE(rosters_.is_formed());
    const auto roster = meet({.worker = "a", .step = 4});
    ASSERT_TRUE(roster);
    EXPECT_EQ(roster->term, 7);
    EXPECT_EQ(roster->number, 1);
    EXPECT_EQ(roster->rank, 0);
    EXPECT_THAT(roster->workers, ElementsAre("a", "b"));
    EXPECT_THAT(roster->steps, ElementsAre(4, -1));
    EXPECT_FALSE(roster->keeps_sums);
    EXPECT_EQ(meet(first_request("b"))->rank, 1);
    EXPECT_THAT(rosters_.take_news(), ElementsAre("worker a, worker b joined: 2 workers"));
}

TEST_F(RostersTest, TheFirstRosterIsFormedWithFewerAfterSomeTime) {
    rosters_ = Rosters({.least_workers = 3, .gather_seconds = 60});
    rosters_.look_around(1000);
    EXPECT_FALSE(meet(first_request("a"), 1000));
    rosters_.beat("a", 1059);
    rosters_.look_around(1059);
    EXPECT_FALSE(rosters_.is_formed());
    rosters_.look_around(1060);
    EXPECT_TRUE(rosters_.is_formed());
    EXPECT_TRUE(meet(first_request("a"), 1061));
}

TEST_F(RostersTest, TheFirstRosterIsFormedByWhoeverIsThereWhenItWaitsForNoMore) {
    rosters_ = Rosters({.least_workers = 3});
    EXPECT_FALSE(meet(first_request("a")));
    rosters_.wait_for_no_more();
    rosters_.look_around(1);
    EXPECT_TRUE(meet(first_request("a"), 1));
    rosters_ = Rosters({.least_workers = 3});
    rosters_.wait_for_no_more();
    EXPECT_TRUE(meet(first_request("b"), 2)) << "who comes later, too";
}

TEST_F(RostersTest, WhoeverIsSilentWhileItWaitsIsNotInTheRoster) {
    rosters_ = Rosters({.silence_seconds = 10, .least_workers = 2});
    (void)meet(first_request("a"), 0);
    rosters_.look_around(11);
    EXPECT_FALSE(meet(first_request("b"), 11));
    EXPECT_TRUE(meet(first_request("c"), 11));
    EXPECT_THAT(rosters_.workers(), ElementsAre("b", "c"));
    EXPECT_EQ(rosters_.lost_workers(), 0) << "it was no member";
}

TEST_F(RostersTest, ABeatAloneMakesNoMember) {
    rosters_ = Rosters({.least_workers = 1});
    rosters_.beat("a", 0);
    EXPECT_TRUE(meet(first_request("b")));
    EXPECT_THAT(rosters_.workers(), ElementsAre("b"));
}

TEST_F(RostersTest, AWorkerThatWantsToJoinEndsTheRosterAndMembersKeepOrderAndSums) {
    form({"b", "c"});
    call({"b", "c"});
    EXPECT_FALSE(meet(first_request("a")));
    EXPECT_FALSE(rosters_.is_formed());
    EXPECT_THROW((void)rosters_.enter(place_of("b", 2)), RosterChanged);
    EXPECT_FALSE(meet(next_request("c")));
    const auto roster = meet(next_request("b"));
    ASSERT_TRUE(roster);
    EXPECT_EQ(roster->number, 2);
    EXPECT_THAT(roster->workers, ElementsAre("b", "c", "a"));
    EXPECT_THAT(roster->steps, ElementsAre(3, 3, -1));
    EXPECT_TRUE(roster->keeps_sums);
    EXPECT_FALSE(meet(first_request("a"))->keeps_sums);
    EXPECT_THAT(rosters_.take_news(), ElementsAre("worker a joined: 3 workers"));
}

TEST_F(RostersTest, AMemberThatAsksTheSameAgainDidNotGetTheAnswer) {
    form({"a", "b"});
    EXPECT_EQ(meet(first_request("a"))->number, 1);
    EXPECT_EQ(meet(first_request("a"))->number, 1);
    EXPECT_TRUE(rosters_.is_formed());
}

TEST_F(RostersTest, AMemberThatAsksAsAtFirstAfterACallWasStartedAgain) {
    form({"a", "b"});
    call({"a"});
    EXPECT_FALSE(meet(first_request("a")));
    EXPECT_EQ(rosters_.lost_workers(), 1);
    EXPECT_EQ(meet(next_request("b"))->number, 2);
    EXPECT_FALSE(meet(first_request("a"))->keeps_sums);
    EXPECT_THAT(rosters_.take_news(), ElementsAre("worker a was started again", "worker a joined: 2 workers"));
}

// It was killed before its first call: the others were told of weights that it has no more.
TEST_F(RostersTest, AMemberThatAsksSomethingElseWasStartedAgainToo) {
    form({"a", "b"});
    (void)meet(next_request("a"));
    (void)meet(next_request("b"));
    EXPECT_EQ(rosters_.number(), 2);
    EXPECT_FALSE(meet(first_request("a")));
    EXPECT_EQ(rosters_.lost_workers(), 1);
}

TEST_F(RostersTest, AMemberThatHasLostTheOthersEndsTheRoster) {
    form({"a", "b"});
    EXPECT_FALSE(meet(next_request("b")));
    EXPECT_FALSE(rosters_.is_formed());
    EXPECT_TRUE(meet(next_request("a"))->keeps_sums);
    EXPECT_THAT(rosters_.take_news(), ElementsAre("worker b has lost the others: all meet again"));
}

TEST_F(RostersTest, WhoeverIsSilentIsGoneAndTheOthersGoOn) {
    form({"a", "b", "c"});
    rosters_.beat("a", 5);
    rosters_.beat("b", 5);
    rosters_.look_around(10);
    EXPECT_TRUE(rosters_.is_formed());
    rosters_.look_around(10.5);
    EXPECT_FALSE(rosters_.is_formed());
    EXPECT_EQ(rosters_.lost_workers(), 1);
    EXPECT_FALSE(meet(next_request("a"), 11));
    EXPECT_EQ(meet(next_request("b"), 11)->workers, (Names{"a", "b"}));
    EXPECT_THAT(rosters_.take_news(), ElementsAre("worker c is gone (silent for 10 s): 2 workers go on"));
}

TEST_F(RostersTest, WhoeverComesBackBeforeTheNextRosterKeepsItsSums) {
    form({"a", "b"});
    rosters_.beat("a", 9);
    rosters_.look_around(11);
    EXPECT_FALSE(meet(next_request("b"), 12));
    EXPECT_TRUE(meet(next_request("a"), 12)->keeps_sums);
    EXPECT_EQ(rosters_.workers(), (Names{"a", "b"}));
    EXPECT_TRUE(rosters_.keeps_sums(1));
    EXPECT_THAT(rosters_.take_news(),
                ElementsAre("worker b is gone (silent for 10 s): 1 worker goes on", "worker b joined: 2 workers"));
}

TEST_F(RostersTest, TheLastOneToBeSilentIsNotWaitedFor) {
    form({"a", "b"});
    EXPECT_FALSE(meet(next_request("a"), 9));
    rosters_.look_around(10.5);
    EXPECT_TRUE(rosters_.is_formed()) << "a had come, and b is gone";
    EXPECT_EQ(rosters_.workers(), Names{"a"});
}

TEST_F(RostersTest, WhoeverLeavesIsNotWaitedForAndNotLost) {
    form({"a", "b"});
    EXPECT_FALSE(meet(next_request("a")));
    rosters_.leave("b", 1);
    EXPECT_EQ(rosters_.workers(), Names{"a"});
    EXPECT_EQ(rosters_.lost_workers(), 0);
    rosters_.beat("b", 1);
    rosters_.leave("a", 2);
    EXPECT_FALSE(rosters_.is_formed());
    EXPECT_TRUE(meet(first_request("c"), 3)) << "nobody else is left";
    EXPECT_THAT(rosters_.take_news(),
                ElementsAre("worker a has lost the others: all meet again", "worker b has left: 1 worker goes on",
                            "worker a has left: nobody is left", "worker c joined: 1 worker"));
}

TEST_F(RostersTest, SumsCountUntilAWindowIsBegunWithoutThem) {
    for (const bool window_is_begun : {false, true}) {
        form({"a", "b"});
        rosters_.note_window_begun();
        const MeetRequest sleeper = next_request("b");
        rosters_.leave("b", 0);
        ASSERT_TRUE(meet(next_request("a")));
        if (window_is_begun) {
            rosters_.note_window_begun();
        }
        EXPECT_FALSE(meet(sleeper));
        EXPECT_TRUE(meet(next_request("a"))->keeps_sums);
        EXPECT_EQ(meet(sleeper)->keeps_sums, !window_is_begun);
    }
}

TEST_F(RostersTest, SumsOfAnotherTermCountForNothing) {
    form({"a"});
    EXPECT_FALSE(meet({.worker = "a", .term = 6, .roster = 1, .step = 3})->keeps_sums);
    EXPECT_FALSE(meet({.worker = "a", .term = 7, .roster = 9, .step = 3})->keeps_sums)
        << "there was none of this number";
}

TEST_F(RostersTest, AfterSumsWereGatheredTheyAreRank0s) {
    form({"a", "b"});
    rosters_.note_window_begun();
    rosters_.note_sums_gathered();
    for (int i = 0; i < 2; ++i) {
        (void)meet(next_request("b"));
        EXPECT_TRUE(meet(next_request("a"))->keeps_sums);
        EXPECT_FALSE(rosters_.keeps_sums(1));
    }
    rosters_.note_window_begun();
    (void)meet(next_request("b"));
    (void)meet(next_request("a"));
    EXPECT_TRUE(rosters_.keeps_sums(1));
}

TEST_F(RostersTest, ALateCopyOfARequestChangesNothing) {
    form({"a", "b"});
    const MeetRequest old_request = next_request("a");
    (void)meet(old_request);
    (void)meet(next_request("b"));
    call({"a"});
    EXPECT_FALSE(meet(old_request));
    EXPECT_TRUE(rosters_.is_formed());

    const MeetRequest present_request = next_request("a");
    EXPECT_FALSE(meet(present_request));
    EXPECT_FALSE(meet(old_request));
    (void)meet(next_request("b"));
    EXPECT_TRUE(meet(present_request)->keeps_sums) << "the newest of those who wait counts";
}

TEST_F(RostersTest, CallsFromElsewhereThrowRosterChanged) {
    form({"a", "b"});
    CallPlace place = place_of("b");
    EXPECT_EQ(rosters_.enter(place), 1U);
    EXPECT_EQ(rosters_.enter(place), 1U) << "it is repeated";
    const auto refused = [&](const CallPlace& from) { EXPECT_THROW((void)rosters_.enter(from), RosterChanged); };
    refused({.worker = "c", .term = 7, .roster = 1, .call = 1});
    refused({.worker = "b", .term = 6, .roster = 1, .call = 2});
    refused({.worker = "b", .term = 7, .roster = 2, .call = 2});
    refused({.worker = "b", .term = 7, .roster = 0, .call = 2});
    place.call = 3;
    EXPECT_EQ(rosters_.enter(place), 1U);
    place.call = 2;
    refused(place);
    rosters_.leave("a", 1);
    place.call = 4;
    refused(place);
}

// What who left has sent is on its way to the others, and must arrive.
TEST_F(RostersTest, ARosterLacksAMemberThatIsGoneWithoutAWordButNoneThatLeft) {
    form({"a", "b", "c"});
    EXPECT_FALSE(rosters_.health().lacks_member);
    rosters_.leave("b", 1);
    EXPECT_FALSE(rosters_.health().lacks_member);
    rosters_.look_around(100);
    EXPECT_TRUE(rosters_.health().lacks_member);
}

TEST_F(RostersTest, CallsAreCountedFromOneOn) {
    form({"a"});
    EXPECT_THAT([&] { (void)rosters_.enter(place_of("a", 0)); },
                ThrowsMessage<Error>(HasSubstr("worker a makes call 0, but calls are counted from 1 on")));
    EXPECT_THAT(rosters_.take_news(), IsEmpty());
}

}  // namespace
}  // namespace accrue
