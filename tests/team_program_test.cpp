// `accrue train --workers`: processes that are killed, stopped and left alone, as on a user's machine.

#include <csignal>
#include <string>

#include "tests/running_program.h"
#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "accrue/base/clock.h"
#include "accrue/base/file.h"
#include "accrue/observe/metrics_rows.h"

namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TeamProgramTest : public ::testing::Test {
protected:
    TeamProgramTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] std::vector<std::string> train(const std::string& run, const std::vector<std::string>& more) const {
        std::vector<std::string> arguments = {"train"};
        for (const std::string& setting :
             {"model.from=" + golden("llama").string(), "data.train=" + (folder_ / "data.safetensors").string(),
              std::string("window.samples=7"), std::string("window.grain_samples=1"), std::string("schedule.steps=40"),
              std::string("run.checkpoint_steps=10"), std::string("run.evaluate_steps=0"),
              std::string("compute.device=cpu"), "run.folder=" + (folder_ / run).string()}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    [[nodiscard]] std::vector<std::string> resume(const std::string& run, const std::vector<std::string>& more) const {
        std::vector<std::string> arguments = {"train", "--resume", (folder_ / run).string()};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    // Of the run that one process computes.
    [[nodiscard]] std::string undisturbed() {
        EXPECT_EQ(run_program(train("alone", {})).exit_code, 0);
        return weights("alone");
    }
    [[nodiscard]] std::string weights(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors").substr(0, 64);
    }
    [[nodiscard]] int64_t steps_of(const std::string& run) const {
        int64_t steps = 0;
        (void)read_metrics(folder_ / run / "metrics.jsonl", [&](const MetricsRow&) { ++steps; });
        return steps;
    }
    [[nodiscard]] std::vector<pid_t> workers_of(const std::string& run) const { return workers_of_run(folder_ / run); }
    // Nobody needs to be told: they see that nobody leads them any more.
    void expect_no_workers_soon(const std::string& run) const {
        const auto start = Clock::now();
        while (!workers_of(run).empty() && seconds_since(start) < 60) {
            usleep(10'000);
        }
        EXPECT_TRUE(workers_of(run).empty());
    }

    TemporaryFolder folder_;
};

TEST_F(TeamProgramTest, WorkersGiveTheSameFileAndAreGoneAfterwards) {
    const std::string expected = undisturbed();
    const ProgramResult result = run_program(train("team", {"--workers", "3"}));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(weights("team"), expected);
    EXPECT_THAT(result.output, AllOf(HasSubstr("Done: 40 steps"), HasSubstr("3 workers")));
    EXPECT_TRUE(workers_of("team").empty());
}

TEST_F(TeamProgramTest, AWorkerThatIsKilledIsReplacedAndChangesNoBit) {
    // Long enough for another one to come before the end.
    const std::vector<std::string> longer = {"--set", "schedule.steps=300", "--workers", "2"};
    EXPECT_EQ(run_program(train("alone", {longer.begin(), longer.begin() + 2})).exit_code, 0);
    const std::string expected = weights("alone");
    bool is_killed = false;
    const auto kill_one = [&] {
        const std::vector<pid_t> workers = workers_of("team");
        if (!is_killed && steps_of("team") >= 3 && !workers.empty()) {
            is_killed = kill(workers.front(), SIGKILL) == 0;
        }
        return false;
    };
    const ProgramResult result = signal_program(train("team", longer), SIGCONT, kill_one);
    EXPECT_TRUE(is_killed);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(weights("team"), expected);
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("was killed by signal 9; worker 3 takes its place"), HasSubstr("worker 3 joined")));
    EXPECT_THAT(read_text(folder_ / "team" / "metrics.jsonl"), HasSubstr("\"lost_workers\":1"));
}

TEST_F(TeamProgramTest, AStoppedRunGoesOnWithAnotherNumberOfWorkers) {
    const std::string expected = undisturbed();
    const ProgramResult stopped =
        signal_program(train("team", {"--workers", "2"}), SIGINT, [this] { return steps_of("team") >= 3; });
    EXPECT_EQ(stopped.exit_code, 3) << stopped.output;
    EXPECT_THAT(stopped.output, HasSubstr("Go on with: accrue train --resume"));
    expect_no_workers_soon("team");
    const ProgramResult went_on = run_program(resume("team", {"--workers", "3"}));
    EXPECT_EQ(went_on.exit_code, 0) << went_on.output;
    EXPECT_EQ(weights("team"), expected);
}

// As a service manager does. No checkpoint is due before the signal.
TEST_F(TeamProgramTest, ASignalToAllProcessesOfARunSavesIt) {
    const std::string expected = undisturbed();
    const ProgramResult stopped = signal_program(train("team", {"--workers", "2"}), SIGTERM, [this] {
        const bool is_time = steps_of("team") >= 3;
        for (const pid_t worker : is_time ? workers_of("team") : std::vector<pid_t>()) {
            kill(worker, SIGTERM);
        }
        return is_time;
    });
    EXPECT_EQ(stopped.exit_code, 3) << stopped.output;
    EXPECT_THAT(stopped.output, AllOf(HasSubstr("All of it is saved"), ::testing::Not(HasSubstr("was killed by"))));
    EXPECT_GE(steps_of("team"), 3) << "what was done is lost";
    EXPECT_EQ(run_program(resume("team", {})).exit_code, 0);
    EXPECT_EQ(weights("team"), expected);
}

TEST_F(TeamProgramTest, WorkersEndWithTheirLeaderAndTheRunGoesOnAlone) {
    const std::string expected = undisturbed();
    const ProgramResult killed =
        signal_program(train("team", {"--workers", "2"}), SIGKILL, [this] { return steps_of("team") >= 12; });
    EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
    expect_no_workers_soon("team");
    EXPECT_EQ(run_program(resume("team", {})).exit_code, 0);
    EXPECT_EQ(weights("team"), expected);
}

TEST_F(TeamProgramTest, WhatWorkersCannotDoIsRefusedBeforeAnythingIsWritten) {
    const std::pair<const char*, const char*> refused[] = {
        {"compute.sums=fp32", "only exact sums of several workers add up alike"},
        {"compute.memory=90MiB", "the smallest plan needs"},
        {"compute.memory=20MiB", "the exchange of their sums alone takes"},
    };
    for (const auto& [setting, words] : refused) {
        const ProgramResult result = run_program(train("refused", {"--workers", "2", "--set", setting}));
        EXPECT_EQ(result.exit_code, 1) << result.output;
        EXPECT_THAT(result.output, HasSubstr(words));
        EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "run.toml"));
    }
    EXPECT_EQ(run_program(train("refused", {"--workers", "0"})).exit_code, 2);
}

}  // namespace
}  // namespace accrue::testing
