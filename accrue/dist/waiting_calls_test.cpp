#include "accrue/dist/waiting_calls.h"

#include <atomic>
#include <chrono>

#include <gtest/gtest.h>

namespace accrue {
namespace {

class FakeCall final : public WaitingCall {
public:
    explicit FakeCall(double seconds = 1e6) {
        until = Clock::now() + std::chrono::milliseconds(int64_t(seconds * 1e3));
    }

    bool is_ready() override { return may_be_ready; }
    void finish() override {
        ++finished;
        finished.notify_all();
    }
    void give_up() override { is_given_up = true; }
    void wait() const { finished.wait(0); }

    std::atomic<bool> may_be_ready = false;
    std::atomic<bool> is_given_up = false;
    std::atomic<int> finished = 0;
};

class WaitingCallsTest : public ::testing::Test {
protected:
    FakeCall first_;
    FakeCall second_;
    CoordinatorDesk desk_{{.silence_seconds = 60}};
    WaitingCalls calls_{desk_};
};

TEST_F(WaitingCallsTest, WhatIsReadyIsFinishedAtOnce) {
    first_.may_be_ready = true;
    calls_.take(first_);
    EXPECT_EQ(first_.finished, 1);
}

TEST_F(WaitingCallsTest, AChangeFinishesWhatIsReadyThen) {
    calls_.take(first_);
    calls_.take(second_);
    EXPECT_EQ(first_.finished, 0);
    first_.may_be_ready = true;
    desk_.note_change();
    first_.wait();
    EXPECT_EQ(second_.finished, 0);
}

// A timeout is the subject.
TEST_F(WaitingCallsTest, ACallWhoseTimeIsOverIsFinishedWithoutAnAnswer) {
    FakeCall call(0.01);
    calls_.take(call);
    call.wait();
    EXPECT_FALSE(call.is_given_up);
}

TEST_F(WaitingCallsTest, ANewerCallTakesThePlaceOfAnOlderOne) {
    first_.replaces = "meeting of a";
    second_.replaces = "meeting of a";
    calls_.take(first_);
    calls_.take(second_);
    EXPECT_EQ(first_.finished, 1);
    EXPECT_EQ(second_.finished, 0);
}

TEST_F(WaitingCallsTest, ACallIsFinishedOnlyOnce) {
    calls_.take(first_);
    calls_.cancel(first_);
    EXPECT_EQ(first_.finished, 1);
    calls_.cancel(first_);
    first_.may_be_ready = true;
    desk_.note_change();
    calls_.end();
    EXPECT_EQ(first_.finished, 1);
}

TEST_F(WaitingCallsTest, TheEndGivesUpWhatWaitsAndWhatComesLater) {
    calls_.take(first_);
    calls_.end();
    calls_.take(second_);
    for (const FakeCall* const call : {&first_, &second_}) {
        EXPECT_TRUE(call->is_given_up);
        EXPECT_EQ(call->finished, 1);
    }
}

}  // namespace
}  // namespace accrue
