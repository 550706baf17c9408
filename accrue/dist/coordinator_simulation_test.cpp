// Runs of a few workers whose result is known, in which anything may go wrong at any time.
//
// Some run fails with each of these faults in the coordinator, tried one by one: a sleeper keeps its sums; all keep theirs after
// they were gathered; a late copy of a call is taken for a new one; a repeated lease gives other grains; a window is open, agreed
// on, or has its verdict, before the last member has come; what was taken from a member stays with it; every exchange counts; what
// was said in an older roster counts; calls of an older term or roster, or of one that has ended, are answered; the roster does
// not end for a joiner, or for one that is silent or leaves; it is formed before all have come.

#include <cstdlib>

#include "tests/sanitized.h"
#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/dist/simulation/run.h"

namespace accrue::simulation {
namespace {

using ::testing::HasSubstr;

// Four million turns in two seconds.
constexpr uint64_t kRuns = kSanitized ? 100 : 2000;

// What went wrong in a run; empty = nothing.
std::string fault_of(const SimulatedRun::Plan& plan, Tally& tally) {
    try {
        SimulatedRun(plan, tally).run();
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

// ACCRUE_TEST_SEED=17 runs that seed alone.
TEST(CoordinatorSimulationTest, WhateverGoesWrongTheWeightsAreThoseOfOneProcessAndTheRunEnds) {
    const char* const alone = std::getenv("ACCRUE_TEST_SEED");
    const uint64_t first = alone == nullptr ? 0 : std::strtoull(alone, nullptr, 10);
    const uint64_t last = alone == nullptr ? kRuns : first + 1;
    Tally tally;
    for (uint64_t seed = first; seed < last; ++seed) {
        ASSERT_EQ(fault_of({.seed = seed}, tally), "") << "seed " << seed;
    }
    if (alone == nullptr) {
        for (const int64_t count :
             {tally.late_copies, tally.lost_workers, tally.recomputed_grains, tally.faults, tally.windows_left_open,
              tally.replays, tally.checkpoints_loaded, tally.coordinator_starts - static_cast<int64_t>(kRuns)}) {
            EXPECT_GT(count, static_cast<int64_t>(kRuns / 10)) << "it hardly ever happened";
        }
    }
}

TEST(CoordinatorSimulationTest, WhereNothingGoesWrongNothingIsComputedTwice) {
    Tally tally;
    for (uint64_t seed = 0; seed < 50; ++seed) {
        ASSERT_EQ(fault_of({.seed = seed, .disturbed_turns = 0}, tally), "") << "seed " << seed;
    }
    EXPECT_EQ(tally.recomputed_grains, 0);
    EXPECT_EQ(tally.lost_workers, 0);
    EXPECT_EQ(tally.faults, 0);
}

// A mistake of workers, and what is said of it in a hundred runs.
struct FoundMistake {
    Mistake mistake;
    const char* name;
    const char* text;
};

class MistakeTest : public ::testing::TestWithParam<FoundMistake> {};

TEST_P(MistakeTest, IsFound) {
    Tally tally;
    std::string faults;
    for (uint64_t seed = 0; seed < 100; ++seed) {
        faults += fault_of({.seed = seed, .mistake = GetParam().mistake}, tally) + "\n";
    }
    EXPECT_THAT(faults, HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    Simulation, MistakeTest,
    ::testing::Values(FoundMistake{Mistake::keeps_lost_sums, "KeepingLostSums", "it must begin with empty sums"},
                      FoundMistake{Mistake::applies_unheard, "ApplyingUnheard", "has not ended for all"},
                      FoundMistake{Mistake::keeps_replay, "KeepingAReplay", "workers differ in what a window is"},
                      FoundMistake{Mistake::keeps_task, "KeepingATask", "it must ask for the first"},
                      FoundMistake{Mistake::renumbers_calls, "RenumberingCalls", "adding them would count it twice"},
                      FoundMistake{Mistake::differs, "Differing", "bits differ"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace accrue::simulation
