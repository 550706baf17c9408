// A short soak of workers with fixed seeds, and that it sees what it is there to see.

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/soaking/cable_network.h"
#include "tests/soaking/folders_in_memory.h"
#include "tests/soaking/team_processes.h"
#include "tests/soaking/team_round.h"
#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;
using testing::accrue_program;
using ::testing::HasSubstr;

TEST(TeamSoakTest, WorkersThatAreDisturbedGiveTheSameBits) {
    const FoldersInMemory in_memory;
    const TemporaryFolder folder;
    const TeamSoakOptions options{.program = accrue_program()};
    TeamTally tally;
    for (uint64_t seed = 1; tally.faults() < 20; ++seed) {
        const RoundReport report = run_team_round(options, seed, folder / cat(seed), tally);
        EXPECT_EQ(report.problem, "") << "seed " << seed << "\n" << ::testing::PrintToString(report.log);
        if (!report.problem.empty()) {
            return;
        }
        fs::remove_all(folder / cat(seed));
    }
    EXPECT_GE(tally.pauses.size(), 5U) << "kinds of faults";
}

TEST(TeamSoakTest, WorkersThatAreCutOffComeAgainAndGiveTheSameBits) {
    if (const std::string why = CableNetwork::why_none(); !why.empty()) {
        GTEST_SKIP() << "network namespaces cannot be made here: " << why;
    }
    const FoldersInMemory in_memory;
    const TemporaryFolder folder;
    TeamTally tally;
    const TeamSoakOptions options{
        .program = accrue_program(),
        .kinds = {TeamFault::cut_worker_briefly, TeamFault::cut_worker, TeamFault::cut_leader},
        .may_cut = true};
    const RoundReport report = run_team_round(options, 1, folder.path(), tally);
    EXPECT_EQ(report.problem, "") << ::testing::PrintToString(report.log);
    EXPECT_EQ(tally.pauses.size(), 3U) << "kinds of faults";
}

// A stand-in for the program that does one thing wrong.
class FaultyTeamSoakTest : public ::testing::Test, FoldersInMemory {
protected:
    [[nodiscard]] std::string problem_with(const std::string& wrong) {
        const fs::path program = folder_ / "faulty";
        write_text(program, cat("#!/bin/bash\n", accrue_program(), " \"$@\"; code=$?\n", wrong, "\nexit $code\n"));
        fs::permissions(program, fs::perms::owner_all);
        TeamTally tally;
        return run_team_round({.program = program, .kinds = {TeamFault::freeze_worker}}, 3, folder_ / "round", tally)
            .problem;
    }

    TemporaryFolder folder_;
};

TEST_F(FaultyTeamSoakTest, OtherBitsAreFound) {
    EXPECT_THAT(problem_with("[[ $2 == --resume ]] && echo x >>$3/model/model.safetensors"), HasSubstr("model"));
}

TEST_F(FaultyTeamSoakTest, AFileThatIsLeftBehindIsFound) {
    EXPECT_THAT(problem_with("[[ $2 == --resume ]] && touch $TMPDIR/forgotten"), HasSubstr("forgotten was left over"));
}

TEST_F(FaultyTeamSoakTest, AWrongExitCodeIsFound) {
    EXPECT_THAT(problem_with("[[ $2 == --resume ]] && code=3"), HasSubstr("ended with exit code 3"));
}

TEST(TeamFaultTest, AnUnknownKindIsNamedWithThoseThereAre) {
    EXPECT_THAT([] { (void)team_fault_named("flood"); },
                ::testing::ThrowsMessage<Error>(::testing::AllOf(HasSubstr("flood"), HasSubstr("lose-worker"))));
    for (const TeamFault fault : all_team_faults()) {
        EXPECT_EQ(team_fault_named(name_of(fault)), fault);
    }
}

TEST(TeamProcessesTest, TheProcessesOfAGroupAreThoseThatAreAlive) {
    RunningChild child({.program = "/bin/sh", .arguments = {"-c", "sleep 1000 & sleep 1000; true"}});
    while (processes_of_group(child.id()).size() < 3) {
        std::this_thread::yield();
    }
    EXPECT_TRUE(workers_of_group(child.id()).empty());
    EXPECT_FALSE(invitation_of(child.id()).has_value());
    kill(-child.id(), SIGKILL);
    EXPECT_EQ(child.exit_code(), 128 + SIGKILL);
    while (!processes_of_group(child.id()).empty()) {
        std::this_thread::yield();
    }
}

}  // namespace
}  // namespace accrue::soaking
