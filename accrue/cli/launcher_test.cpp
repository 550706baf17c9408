#include "accrue/cli/launcher.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue::testing {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Launch> launch_of(const Variables& variables) {
    return launch_in([&](const std::string& name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
}

std::string error_of(const Variables& variables) {
    try {
        (void)launch_of(variables);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(LauncherTest, NobodyLaunchesAProgramThatAUserStarts) {
    EXPECT_FALSE(launch_of({}));
    EXPECT_FALSE(launch_of({{"HOME", "/home/somebody"}, {"SHELL", "/bin/sh"}}));
}

// As Slurm 22.05 sets them.
const Variables kOneNode = {
    {"SLURM_JOB_ID", "4711"},      {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "1"},          {"SLURM_NTASKS", "2"},
    {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "red1"}};

TEST(LauncherTest, TasksOfSrunOnOneNodeMeetThere) {
    const auto launch = launch_of(kOneNode);
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->launcher, "srun");
    EXPECT_EQ(launch->job, "slurm-4711.0");
    EXPECT_EQ(launch->rank, 1);
    EXPECT_EQ(launch->size, 2);
    EXPECT_EQ(launch->coordinator, "");
}

TEST(LauncherTest, TasksOfSrunOnSeveralNodesMeetOnTheFirst) {
    Variables variables = kOneNode;
    variables["SLURM_STEP_NUM_NODES"] = "3";
    variables["SLURM_STEP_NODELIST"] = "red[08-09],blue2";
    EXPECT_EQ(launch_of(variables)->coordinator, "red08:30311");
}

TEST(LauncherTest, ABatchScriptIsNoTask) {
    EXPECT_FALSE(launch_of({{"SLURM_JOB_ID", "4711"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
}

TEST(LauncherTest, OneTaskIsAProgramLikeAnyOther) {
    EXPECT_FALSE(launch_of({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
    EXPECT_FALSE(launch_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
}

// As Open MPI 4.1 sets them.
TEST(LauncherTest, RanksOfOpenMpiOnOneMachineMeetThere) {
    const auto launch = launch_of({{"OMPI_COMM_WORLD_RANK", "0"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                   {"PMIX_NAMESPACE", "1772486657"}});
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->launcher, "mpirun");
    EXPECT_EQ(launch->job, "mpirun-1772486657");
    EXPECT_EQ(launch->rank, 0);
    EXPECT_EQ(launch->size, 4);
    EXPECT_EQ(launch->coordinator, "");
}

TEST(LauncherTest, RanksOfOpenMpiOnSeveralMachinesAreToldWhatToSet) {
    Variables variables = {
        {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
    EXPECT_EQ(error_of(variables),
              "mpirun has started this program on several machines, and does not say where its number 0 is. Set "
              "ACCRUE_COORDINATOR=HOST:PORT for all of them: the host that number 0 runs on, and a port that is free "
              "there.");
    variables["ACCRUE_COORDINATOR"] = "red1";
    const auto launch = launch_of(variables);
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->coordinator, "red1:29600");
    EXPECT_EQ(launch->rank, 3);
}

// As MPICH 4.0 sets them.
TEST(LauncherTest, RanksOfMpichOnOneMachineMeetThere) {
    const auto launch = launch_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}});
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->launcher, "mpiexec");
    EXPECT_EQ(launch->rank, 1);
    EXPECT_EQ(launch->coordinator, "");
}

TEST(LauncherTest, RanksOfTorchrunOnOneMachineMeetThere) {
    const auto launch = launch_of({{"RANK", "1"},
                                   {"WORLD_SIZE", "2"},
                                   {"LOCAL_WORLD_SIZE", "2"},
                                   {"MASTER_ADDR", "127.0.0.1"},
                                   {"MASTER_PORT", "29500"}});
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->coordinator, "");
}

TEST(LauncherTest, TheAgentsPortIsLeftToIt) {
    Variables variables = {{"RANK", "1"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "red1"},
                           {"MASTER_PORT", "29500"}};
    EXPECT_EQ(launch_of(variables)->coordinator, "red1:29500");
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    EXPECT_EQ(launch_of(variables)->coordinator, "red1:29501");
}

TEST(LauncherTest, AnAgentThatStartsAllAgainSaysSo) {
    Variables variables = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}};
    EXPECT_EQ(launch_of(variables)->restarts, 0);
    variables["TORCHELASTIC_RESTART_COUNT"] = "2";
    EXPECT_EQ(launch_of(variables)->restarts, 2);
}

TEST(LauncherTest, AnAddressOfIpv6StandsInBrackets) {
    Variables variables = {{"RANK", "1"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "fd00::7"},
                           {"MASTER_PORT", "29500"}};
    EXPECT_EQ(launch_of(variables)->coordinator, "[fd00::7]:29500");
    for (const auto& [text, coordinator] : {std::pair("fd00::7", "[fd00::7]:29600"),
                                            {"[fd00::7]", "[fd00::7]:29600"},
                                            {"[fd00::7]:70", "[fd00::7]:70"},
                                            {"red1:70", "red1:70"}}) {
        variables["ACCRUE_COORDINATOR"] = text;
        EXPECT_EQ(launch_of(variables)->coordinator, coordinator);
    }
}

// As a Job of Kubernetes with completionMode Indexed sets one, and a user the others.
TEST(LauncherTest, AnIndexedJobMeetsWhereTheUserSays) {
    const auto launch = launch_of(
        {{"JOB_COMPLETION_INDEX", "2"}, {"ACCRUE_COORDINATOR", "accrue-0.accrue:7070"}, {"ACCRUE_WORKERS", "3"}});
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->rank, 2);
    EXPECT_EQ(launch->size, 3);
    EXPECT_EQ(launch->coordinator, "accrue-0.accrue:7070");
}

TEST(LauncherTest, WhatCannotBeIsNamed) {
    EXPECT_EQ(error_of({{"RANK", "two"}, {"WORLD_SIZE", "4"}}),
              "the variable RANK is \"two\", where a number from 0 on was expected.");
    EXPECT_EQ(error_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
              "torchrun says that this is number 4 (RANK) of 4 (WORLD_SIZE), which cannot be.");
    EXPECT_EQ(error_of({{"OMPI_COMM_WORLD_RANK", "0"}}),
              "mpirun started this program, but has not set the variable OMPI_COMM_WORLD_SIZE.");
    EXPECT_EQ(error_of({{"ACCRUE_COORDINATOR", "red1"}}),
              "the variable ACCRUE_COORDINATOR is set, but nothing says which one of the workers this is. Set "
              "ACCRUE_ID to 0, 1, 2 ... and ACCRUE_WORKERS to how many there are, or leave ACCRUE_COORDINATOR out.");
}

TEST(FirstHostTest, ReadsWhatSlurmWrites) {
    EXPECT_EQ(first_host_of("red1"), "red1");
    EXPECT_EQ(first_host_of("red1,red2"), "red1");
    EXPECT_EQ(first_host_of("red[07-09,12],login"), "red07");
    EXPECT_EQ(first_host_of("red[7,9]-ib"), "red7-ib");
    EXPECT_THROW((void)first_host_of("red[7,9"), Error);
}

}  // namespace
}  // namespace accrue::testing
