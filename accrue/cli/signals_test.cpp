// What the handler of signals does and says. Each case runs in a process of its own, which may end by the signal.
#include "accrue/cli/signals.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>

namespace accrue {
namespace {

using Doing = RunWatch::Doing;
using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

// Sends signals to this process while a run does something, then ends with 7 if it still lives.
[[noreturn]] void receive(Doing doing, std::initializer_list<int> signals, int64_t micro_batch = -1,
                          int64_t checkpoint = -1, int64_t saved_step = -1) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGHUP, SIG_DFL);
    RunWatch watch;
    watch.doing = doing;
    watch.micro_batch_milliseconds = micro_batch;
    watch.checkpoint_milliseconds = checkpoint;
    watch.saved_step = saved_step;
    const StopMessages messages(watch);
    const StopFlag& stop = stop_on_signals();
    if (doing != Doing::starting && doing != Doing::tokenizing) {
        StopMessages::name_run("runs/7");
    }
    for (const int signal : signals) {
        (void)std::raise(signal);
    }
    std::_Exit(stop ? 7 : 8);
}

TEST(SignalsTest, TheFirstSaysWhatHappensAndHowLongItTakes) {
    EXPECT_EXIT(receive(Doing::adding, {SIGINT}, 2100, 900), ExitedWithCode(7),
                "^Stopping: finishing this micro-batch \\(about 2 s\\), then saving a checkpoint \\(under 1 s\\)\\.\n"
                "Press Ctrl-C again to stop at once without saving\\.\n$");
    EXPECT_EXIT(receive(Doing::adding, {SIGTERM}, 600'000, 3'000), ExitedWithCode(7),
                "micro-batch \\(about 10 min\\), then saving a checkpoint \\(about 3 s\\)\\.");
    EXPECT_EXIT(receive(Doing::adding, {SIGHUP}), ExitedWithCode(7),
                "finishing this micro-batch, then saving a checkpoint\\.");
}

TEST(SignalsTest, WhatIsSaidFitsWhatTheRunIsDoing) {
    EXPECT_EXIT(receive(Doing::starting, {SIGINT}), ExitedWithCode(7), "the start is finished first");
    EXPECT_EXIT(receive(Doing::tokenizing, {SIGINT}), ExitedWithCode(7), "tokenizing is left");
    EXPECT_EXIT(receive(Doing::evaluating, {SIGINT}, 1, 2'000), ExitedWithCode(7),
                "leaving the validation, .*then saving a checkpoint \\(about 2 s\\)");
    EXPECT_EXIT(receive(Doing::saving, {SIGINT}, 1, 2'000), ExitedWithCode(7),
                "the checkpoint is saved \\(about 2 s\\) to its end first");
    EXPECT_EXIT(receive(Doing::finishing, {SIGINT}), ExitedWithCode(7), "^All steps are done: the model is written");
}

TEST(SignalsTest, ASecondCtrlCEndsAtOnceAndSaysHowToGoOn) {
    EXPECT_EXIT(receive(Doing::adding, {SIGINT, SIGINT}, 1, 1, 40), KilledBySignal(SIGINT),
                "Stopped at once; nothing was saved since step 40\\.\nGo on with: accrue train --resume runs/7\n$");
    EXPECT_EXIT(receive(Doing::adding, {SIGTERM, SIGINT}), KilledBySignal(SIGINT),
                "Stopped at once; nothing was saved\\.\nGo on with: accrue train --resume runs/7\n$");
    EXPECT_EXIT(receive(Doing::tokenizing, {SIGINT, SIGINT}), KilledBySignal(SIGINT),
                "nothing was saved\\.\nStart again with the same command\\.\n$");
}

// timeout(1) sends SIGTERM to the process and again to its group; a terminal that closes sends SIGHUP, and its shell too.
TEST(SignalsTest, SeveralTermsAndHangupsAreOneRequest) {
    EXPECT_EXIT(receive(Doing::adding, {SIGTERM, SIGTERM, SIGHUP, SIGHUP}), ExitedWithCode(7),
                "^Stopping: [^\n]*\nPress[^\n]*\n$");
}

TEST(SignalsTest, WhoeverIgnoresHangupsGoesOnIgnoringThem) {
    const auto ignoring = [] {
        std::signal(SIGHUP, SIG_IGN);
        const StopFlag& stop = stop_on_signals();
        (void)std::raise(SIGHUP);
        std::_Exit(stop ? 7 : 8);
    };
    EXPECT_EXIT(ignoring(), ExitedWithCode(8), "^$");
}

TEST(SignalsTest, ACommandThatCannotGoOnEndsByTheSignal) {
    const auto ended = [](int signal) {
        (void)stop_on_signals();
        (void)std::raise(signal);
        end_by_signal();
    };
    EXPECT_EXIT(ended(SIGINT), KilledBySignal(SIGINT), "^$");
    EXPECT_EXIT(ended(SIGTERM), KilledBySignal(SIGTERM), "^$");
}

}  // namespace
}  // namespace accrue
