// A short soak with fixed seeds, and that a soak sees what it is there to see.

#include <csignal>

#include "tests/soaking/folders_in_memory.h"
#include "tests/soaking/job.h"
#include "tests/soaking/judge.h"
#include "tests/soaking/round.h"
#include "tests/soaking/traced_run.h"
#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;
using testing::accrue_program;
using ::testing::HasSubstr;

class SoakTest : public ::testing::Test, FoldersInMemory {
protected:
    void SetUp() override {
        if (!can_trace()) {
            GTEST_SKIP() << "ptrace or seccomp is not allowed here";
        }
    }
    // What a shell does when it is disturbed at a call.
    [[nodiscard]] Outcome shell(const std::string& script, const Disturbance& disturbance) const {
        return run_traced({.program = "/bin/sh", .arguments = {"-c", "cd " + folder_.path().string() + "; " + script}},
                          disturbance);
    }

    TemporaryFolder folder_;
};

TEST_F(SoakTest, AKillLandsBeforeTheCallOfThatNumber) {
    for (int64_t call = 1; call <= 3; ++call) {  // each redirection makes a file, each echo writes
        const Outcome outcome = shell("echo a >one; echo b >two", {.kind = Kind::kill, .call = call});
        EXPECT_TRUE(outcome.landed);
        EXPECT_EQ(outcome.exit_code, 128 + SIGKILL);
        EXPECT_EQ(fs::exists(folder_ / "one"), call > 1);
        EXPECT_EQ(files_below(folder_.path())["one"], call > 2 ? "a\n" : "");
        EXPECT_FALSE(fs::exists(folder_ / "two"));
        fs::remove(folder_ / "one");
    }
    const Outcome undisturbed = shell("echo a >one", {.kind = Kind::kill, .call = 3});
    EXPECT_FALSE(undisturbed.landed);
    EXPECT_EQ(undisturbed.exit_code, 0);
    EXPECT_EQ(undisturbed.changes, 2);
}

TEST_F(SoakTest, AFaultIsWhatTheCallReturns) {
    const Outcome outcome = shell("mkdir one", {.kind = Kind::fault, .call = 1, .pick = 0});
    EXPECT_TRUE(outcome.landed);
    EXPECT_EQ(outcome.where, "ENOSPC from mkdir of one");
    EXPECT_THAT(outcome.output, HasSubstr("No space left on device"));
    EXPECT_FALSE(fs::exists(folder_ / "one"));
}

TEST_F(SoakTest, AFullDiskTakesHalfAWriteAndNothingAfterIt) {
    const Outcome outcome = shell("echo long >one; echo b >two", {.kind = Kind::full_disk, .call = 2});
    EXPECT_TRUE(outcome.landed);
    EXPECT_EQ(read_text(folder_ / "one"), "lo");
    EXPECT_FALSE(fs::exists(folder_ / "two"));
}

TEST_F(SoakTest, AFrozenProcessGoesOnAndASignalEndsOne) {
    EXPECT_EQ(shell("echo a >one; echo b >two", {.kind = Kind::freeze, .call = 2}).exit_code, 0);
    EXPECT_EQ(read_text(folder_ / "two"), "b\n");
    EXPECT_EQ(shell("echo a >one", {.kind = Kind::stop, .call = 1, .signal = SIGTERM}).exit_code, 128 + SIGTERM);
}

TEST_F(SoakTest, APowerCutTakesWhatWasNotSynced) {
    const Outcome outcome = shell("echo safe >one; sync one; echo more >>one; echo lost >two; echo >three",
                                  {.kind = Kind::power_cut, .call = 9});
    ASSERT_TRUE(outcome.landed) << outcome.changes;
    ASSERT_EQ(files_below(folder_.path()), (Files{{"one", "safe\nmore\n"}, {"three", ""}, {"two", "lost\n"}}));
    Dice dice(1);
    EXPECT_EQ(outcome.unsynced.lose(folder_.path(), dice), 2);
    const Files left = files_below(folder_.path());
    EXPECT_TRUE(left.at("one").starts_with("safe\n") && left.at("one").size() < 10) << left.at("one");
    EXPECT_LT(left.at("two").size(), 5U);
}

TEST_F(SoakTest, DisturbedJobsComeOutTheSame) {
    SoakOptions options{.program = accrue_program()};
    options.kinds = {Kind::kill, Kind::power_cut, Kind::stop, Kind::freeze, Kind::fault, Kind::full_disk};
    Tally tally;
    for (const uint64_t seed : {2, 5, 22, 25, 31, 36}) {
        const RoundReport report = run_round(options, seed, folder_ / cat(seed), tally);
        EXPECT_EQ(report.problem, "") << "seed " << seed << "\n" << ::testing::PrintToString(report.log);
        fs::remove_all(folder_ / cat(seed));
    }
    EXPECT_GT(tally.resumes, 0);
    for (const Kind kind : options.kinds) {
        EXPECT_GT(tally.landed[kind], 0) << name_of(kind);
    }
}

// One run of a few steps, disturbed at all its calls one after another.
class SoakSweepTest : public SoakTest {
protected:
    void SetUp() override {
        SoakTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        fs::create_directories(folder_ / "inputs");
        Dice dice(4);  // conversations through the token cache
        job_ = make_job(dice, folder_ / "inputs");
        ASSERT_THAT(job_.description, HasSubstr("conversations"));
        job_.settings["schedule.steps"] = "3";
        job_.settings["schedule.warmup_steps"] = "1";
        job_.settings["run.checkpoint_steps"] = "1";
        job_.settings["run.keep_checkpoints"] = "1";
        const Outcome outcome = run_traced(train(folder_ / "whole" / "run"), {});
        ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
        changes_ = outcome.changes;
        expected_ = {.model = files_below(folder_ / "whole" / "run" / "model"),
                     .metrics = folder_ / "whole" / "run" / "metrics.jsonl"};
        ASSERT_TRUE(expected_.model.contains("tokenizer.json"));
    }
    [[nodiscard]] Command train(const fs::path& run) const {
        Command command{.program = accrue_program(), .arguments = {"train"}};
        for (const auto& [key, value] : job_.settings) {
            command.arguments.insert(command.arguments.end(), {"--set", key + "=" + value});
        }
        command.arguments.insert(command.arguments.end(), {"--set", "run.folder=" + run.string()});
        return command;
    }
    [[nodiscard]] Command resume(const fs::path& run) const {
        return {.program = accrue_program(), .arguments = {"train", "--resume", run.string()}};
    }
    // Disturbs a new run there, looks whether it ended well, and finishes it.
    void disturb_and_finish(const Disturbance& disturbance) {
        SCOPED_TRACE(text_of(disturbance));
        const fs::path run = folder_ / cat("disturbed-", disturbance.call) / "run";
        fs::create_directories(run.parent_path());
        const Outcome outcome = run_traced(train(run), disturbance);
        landed_ += outcome.landed ? 1 : 0;
        SCOPED_TRACE(outcome.where);
        EXPECT_NO_THROW(check_end(outcome, disturbance, folder_.path())) << outcome.output;
        Dice dice(disturbance.pick);
        if (disturbance.kind == Kind::power_cut) {
            (void)outcome.unsynced.lose(run.parent_path(), dice);
        }
        const bool begun = fs::exists(run / "run.toml");
        const Outcome rest = run_traced(begun ? resume(run) : train(run), {});
        EXPECT_EQ(rest.exit_code, 0) << rest.output;
        EXPECT_NO_THROW(check_results(run, expected_));
        EXPECT_NO_THROW(check_nothing_left(run));
        fs::remove_all(run.parent_path());
    }

    Job job_;
    ExpectedRun expected_;
    int64_t changes_ = 0;
    int64_t landed_ = 0;
};

// The lines of metrics.jsonl up to a checkpoint are as safe as the checkpoint.
TEST_F(SoakSweepTest, APowerCutLosesNoStep) {
    for (int64_t call = 5; call <= changes_; call += 25) {
        disturb_and_finish({.kind = Kind::power_cut, .call = call, .pick = static_cast<uint64_t>(call)});
    }
    EXPECT_GE(landed_, 6);
}

TEST_F(SoakSweepTest, AnErrorOfTheDiskIsAnErrorThatNamesAFile) {
    for (int64_t call = 3; call <= changes_; call += 20) {
        disturb_and_finish({.kind = Kind::fault, .call = call, .pick = static_cast<uint64_t>(call)});
    }
    EXPECT_GE(landed_, 10);
}

TEST_F(SoakSweepTest, AFinishedRunHasItsModelWhenAResumeIsKilledAtAnyCall) {
    const fs::path run = folder_ / "whole" / "run";
    const int64_t changes = run_traced(resume(run), {}).changes;
    RunWatch watch(run, expected_);
    watch.look();
    for (int64_t call = 1; call <= changes; ++call) {
        const Outcome outcome = run_traced(resume(run), {.kind = Kind::kill, .call = call});
        landed_ += outcome.landed ? 1 : 0;
        EXPECT_NO_THROW(watch.look()) << outcome.where;
    }
    EXPECT_GE(landed_, 20);
}

// A stand-in for the program that does one thing wrong.
class FaultySoakTest : public SoakTest {
protected:
    [[nodiscard]] std::string problem_with(const std::string& wrong) {
        const fs::path program = folder_ / "faulty";
        write_text(program, cat("#!/bin/bash\n", accrue_program(), " \"$@\"; code=$?\n", wrong, "\nexit $code\n"));
        fs::permissions(program, fs::perms::owner_all);
        SoakOptions options{.program = program};
        options.kinds = {Kind::freeze};
        Tally tally;
        return run_round(options, 3, folder_ / "round", tally).problem;
    }
};

TEST_F(FaultySoakTest, OtherBitsAreFound) {
    EXPECT_THAT(problem_with("[[ $2 == --resume ]] && echo x >>$3/model/model.safetensors"), HasSubstr("model"));
}

TEST_F(FaultySoakTest, AStepThatStandsTwiceIsFound) {
    EXPECT_THAT(problem_with("[[ $2 == --resume ]] && tail -n 1 $3/metrics.jsonl >>$3/metrics.jsonl"),
                HasSubstr("metrics.jsonl has"));
}

TEST_F(FaultySoakTest, WhatIsLeftOverIsFound) {
    EXPECT_THAT(problem_with("[[ $2 == --resume ]] && touch $3/.model.partial"), HasSubstr("was left over"));
}

TEST_F(FaultySoakTest, AWrongExitCodeIsFound) {
    EXPECT_THAT(problem_with("[[ $2 == --resume ]] && code=3"), HasSubstr("ended with exit code 3"));
}

TEST(SoakKindTest, AnUnknownKindIsNamedWithThoseThereAre) {
    EXPECT_THAT([] { (void)kind_named("flood"); },
                ::testing::ThrowsMessage<Error>(::testing::AllOf(HasSubstr("flood"), HasSubstr("power-cut"))));
    for (const Kind kind : all_kinds()) {
        EXPECT_EQ(kind_named(name_of(kind)), kind);
    }
}

}  // namespace
}  // namespace accrue::soaking
