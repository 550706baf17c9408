// `accrue train` started several times by a launcher: by variables as launchers set them, and by real ones where they are.

#include <csignal>
#include <cstdlib>
#include <memory>

#include "tests/running_program.h"
#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace accrue::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class LaunchProgramTest : public ::testing::Test {
protected:
    LaunchProgramTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] Words train(const std::string& run, const Words& settings = {}) const {
        Words words = {"train"};
        Words all = {"model.from=" + golden("llama").string(),
                     "data.train=" + (folder_ / "data.safetensors").string(),
                     "window.samples=7",
                     "window.grain_samples=1",
                     "schedule.steps=8",
                     "run.evaluate_steps=0",
                     "compute.device=cpu",
                     "run.folder=" + (folder_ / run).string()};
        all.insert(all.end(), settings.begin(), settings.end());
        for (const std::string& setting : all) {
            words.insert(words.end(), {"--set", setting});
        }
        return words;
    }
    // As torchrun sets them on one machine.
    [[nodiscard]] Words variables(int64_t rank, int64_t size) const {
        return {cat("RANK=", rank),      cat("WORLD_SIZE=", size), cat("LOCAL_WORLD_SIZE=", size),
                "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500",      "TMPDIR=" + folder_.path().string()};
    }
    [[nodiscard]] std::string undisturbed() {
        EXPECT_EQ(run_program(train("alone")).exit_code, 0);
        return weights("alone");
    }
    [[nodiscard]] std::string weights(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors");
    }
    // By a program that starts others, which is skipped where it is not.
    void expect_the_file_of_one_process_by(const std::string& launcher, const Words& options, int64_t processes) {
        if (std::system(cat("command -v ", launcher, " > /dev/null 2>&1").c_str()) != 0) {
            GTEST_SKIP() << "there is no " << launcher;
        }
        Words words = {launcher};
        words.insert(words.end(), options.begin(), options.end());
        words.push_back(accrue_program());
        const Words ours = train(launcher);
        words.insert(words.end(), ours.begin(), ours.end());
        const ProgramResult result = run_program_at("/usr/bin/env", words);
        EXPECT_EQ(result.exit_code, 0) << result.output;
        EXPECT_THAT(result.output, HasSubstr(cat(processes, " processes: this one leads")));
        EXPECT_EQ(weights(launcher), undisturbed());
    }

    TemporaryFolder folder_;
};

TEST_F(LaunchProgramTest, ProcessesOfOneMachineGiveTheFileOfOne) {
    std::vector<std::unique_ptr<RunningProgram>> programs;
    for (int64_t rank = 2; rank >= 0; --rank) {  // whoever leads may come last
        programs.push_back(std::make_unique<RunningProgram>(train("team"), variables(rank, 3)));
    }
    for (const auto& program : programs) {
        EXPECT_EQ(program->wait(), 0) << program->output();
    }
    EXPECT_THAT(programs.back()->output(), HasSubstr("torchrun started 3 processes: this one leads."));
    EXPECT_THAT(programs.back()->output(), HasSubstr("workers: 3;"));
    EXPECT_EQ(programs[0]->output() + programs[1]->output(), "") << "whoever leads speaks for all";
    EXPECT_EQ(weights("team"), undisturbed());
}

TEST_F(LaunchProgramTest, OtherSettingsOfAnotherProcessAreNamed) {
    RunningProgram leader(train("team"), variables(0, 2));
    RunningProgram other(train("team", {"optimizer.rate=0.5"}), variables(1, 2));
    EXPECT_EQ(other.wait(), 1);
    EXPECT_THAT(other.output(),
                HasSubstr("number 1: worker number-1 was started with other settings than the run's leader"));
    EXPECT_THAT(other.output(), HasSubstr("there"));
    leader.send(SIGKILL);
    (void)leader.wait();
}

TEST_F(LaunchProgramTest, WithWorkersOfItsOwnAProgramLooksAtNoLauncher) {
    Words words = train("team");
    words.insert(words.end(), {"--workers", "2"});
    RunningProgram program(words, variables(1, 2));
    EXPECT_EQ(program.wait(), 0) << program.output();
    EXPECT_EQ(weights("team"), undisturbed());
}

// As torchrun --max-restarts: all of them, with the same words.
TEST_F(LaunchProgramTest, ProcessesThatAreStartedAgainGoOnWithTheirRun) {
    const auto start = [this](int64_t rank, int64_t restarts) {
        Words words = variables(rank, 2);
        words.insert(words.end(), {"TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_USE_AGENT_STORE=True",
                                   cat("LOCAL_RANK=", rank), cat("TORCHELASTIC_RESTART_COUNT=", restarts)});
        return std::make_unique<RunningProgram>(train("team", {"run.checkpoint_steps=2", "schedule.steps=60"}), words);
    };
    {
        const auto leader = start(0, 0);
        const auto other = start(1, 0);
        EXPECT_TRUE(leader->says("step 5/")) << leader->output();
        leader->send(SIGKILL);
        EXPECT_EQ(leader->wait(), 128 + SIGKILL);
        other->send(SIGTERM);
        EXPECT_EQ(other->wait(), 3) << "nobody is there who could tell it more";
    }
    const auto other = start(1, 1);
    const auto leader = start(0, 1);
    EXPECT_EQ(leader->wait(), 0) << leader->output();
    EXPECT_EQ(other->wait(), 0) << other->output();
    EXPECT_THAT(leader->output(), Not(HasSubstr("step 3/")));
    EXPECT_EQ(run_program(train("alone", {"schedule.steps=60"})).exit_code, 0);
    EXPECT_EQ(weights("team"), weights("alone"));
}

// As launchers send them: to all. Whoever has not joined yet is not told by anybody else.
TEST_F(LaunchProgramTest, ASignalToAllEndsThoseTooThatHaveNotFoundTheirLeader) {
    RunningProgram late(train("other"), {"RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_PORT=29501"});
    RunningProgram leader(train("team"), variables(0, 3));
    RunningProgram other(train("team"), variables(1, 3));
    EXPECT_TRUE(leader.says("2 of 3 workers are there")) << leader.output();
    for (RunningProgram* const program : {&leader, &other, &late}) {
        program->send(SIGTERM);
    }
    EXPECT_EQ(leader.wait(), 3) << leader.output();
    EXPECT_THAT(leader.output(), HasSubstr("Stopped before the first step."));
    EXPECT_EQ(other.wait(), 0) << other.output();
    EXPECT_THAT(late.wait(), AnyOf(3, 128 + SIGTERM)) << "at its very start a signal ends any program";
}

// As on a machine that has too little memory for it.
TEST_F(LaunchProgramTest, AWorkerOfNumber0ThatIsAlwaysKilledEndsTheRun) {
    RunningProgram leader(train("team"), variables(0, 2));
    while (!leader.has_ended()) {
        for (const pid_t worker : workers_of_run(folder_ / "team")) {
            kill(worker, SIGKILL);
        }
        usleep(1000);
    }
    EXPECT_EQ(leader.wait(), 1);
    EXPECT_THAT(leader.output(), HasSubstr("worker number-0-2 was killed by signal 9 and is started again"));
    EXPECT_THAT(leader.output(), HasSubstr("workers are killed again and again soon after their start"));
}

TEST_F(LaunchProgramTest, OpenMpiStartsIt) {
    expect_the_file_of_one_process_by("mpirun.openmpi", {"--allow-run-as-root", "--oversubscribe", "-n", "2"}, 2);
}

TEST_F(LaunchProgramTest, MpichStartsIt) {
    expect_the_file_of_one_process_by("mpirun.mpich", {"-n", "2"}, 2);
}

}  // namespace
}  // namespace accrue::testing
