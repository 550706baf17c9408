// What several workers would take follows from what one was measured to take. All that is measured is planted here.
#include "accrue/assess/advise_team.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/model/parameters.h"
#include "accrue/train/team/state_sharing.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A worker that computes a grain of 100 tokens in a second, and updates in two.
class AdviseTeamTest : public ::testing::Test {
protected:
    AdviseTeamTest() {
        alone_.times.tokens = 100 * kGrains;
        alone_.times.kernels[0] = kGrains;
        alone_.times.kernels[static_cast<size_t>(Part::optimizer)] = 2;
        alone_.split = {.arithmetic_seconds = kGrains, .streaming_seconds = 2};
        alone_.window_grains = kGrains;
        alone_.plan.micro_batch_grains = 2;
        alone_.ceilings = {.flops = 100e9, .bytes = 1e12};
    }

    // A link over which the exchange of so many workers takes so many seconds.
    [[nodiscard]] double link_for(int64_t workers, double seconds) const {
        return 1e6 * seconds_over_link(exchange_of(inputs_.settings, *inputs_.model, workers), 1e6) / seconds;
    }
    [[nodiscard]] TeamAdvice advice(const TeamRequest& request, const TeamMeasurements& measured = {}) const {
        return find_team_advice(inputs_, alone_, request, measured);
    }

    static constexpr int64_t kGrains = 40;
    RunInputs inputs_ = open_inputs(Settings());
    Advice alone_;
};

// As one line, for the sake of words that stand on two.
std::string narrow_text(const TeamAdvice& advice) {
    std::string text = team_advice_text(advice);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(line.size(), 80U) << line;
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

TEST_F(AdviseTeamTest, MachinesShareTheGrainsAndEachUpdates) {
    const TeamAdvice four = advice({.workers = 4, .link = link_for(4, 3.0)});
    EXPECT_NEAR(four.times.compute_seconds, 10, 1e-9);
    EXPECT_NEAR(four.times.update_seconds, 2, 1e-9);
    EXPECT_NEAR(four.times.exchange_seconds, 3, 1e-9);
    EXPECT_NEAR(four.gain, 42.0 / 15, 1e-9);
    // Of sums 8 bytes each; of weights 2, or 4 of what is read in fp32, to three others.
    const ParameterList& list = inputs_.model->parameters();
    const auto all = static_cast<double>(list.gradient_elements);
    const auto read = static_cast<double>(places_beside_copy(list).elements);
    const double bytes = 4 * 8 * all + 3 * (4 * read + 2 * (all - read));
    EXPECT_NEAR(static_cast<double>(four.exchange.all_sent_bytes), bytes, 0.01 * bytes);
    const TeamAdvice three = advice({.workers = 3, .link = link_for(3, 3.0)});
    EXPECT_NEAR(three.times.compute_seconds, 14, 1e-9) << "one of three has fourteen of forty grains";
}

TEST_F(AdviseTeamTest, AFastNetworkLeavesTheTeamToItsProcessors) {
    const TeamAdvice team = advice({.workers = 4, .link = link_for(4, 0.1)});
    EXPECT_EQ(team.judgement.bound, Bound::compute);
    EXPECT_THAT(narrow_text(team), HasSubstr("bound by compute: arithmetic takes"));
    EXPECT_THAT(narrow_text(team), HasSubstr("Together they are 3.47 times as fast as one of them alone (predicted)"));
    ASSERT_TRUE(team.calm_grains);
    EXPECT_LE(*team.calm_grains, kGrains);
}

TEST_F(AdviseTeamTest, ASlowNetworkIsNamedWithTheWindowThatItWants) {
    const TeamAdvice team = advice({.workers = 4, .link = link_for(4, 100.0)});
    EXPECT_EQ(team.judgement.bound, Bound::network);
    EXPECT_NEAR(team.judgement.share, 100.0 / 112, 1e-6);
    EXPECT_LT(team.gain, 1);
    // 100 s of exchange are a tenth where 900 s are computed: 898 s of grains, and the update.
    ASSERT_TRUE(team.calm_grains);
    EXPECT_EQ(*team.calm_grains, 4 * 899);
    const std::string text = narrow_text(team);
    EXPECT_THAT(text, StartsWith("4 machines with links of "));
    EXPECT_THAT(text, HasSubstr("bound by the network"));
    EXPECT_THAT(text, HasSubstr("Do not add workers for windows of 40 grains"));
    EXPECT_THAT(text, HasSubstr("from windows of 3596"));
    // More of the window at a time, the same exchange: its share only falls.
    ASSERT_GT(team.rows.size(), 4U);
    for (size_t row = 1; row < team.rows.size(); ++row) {
        EXPECT_GT(team.rows[row].grains, team.rows[row - 1].grains);
        EXPECT_LT(team.rows[row].times.exchange_share(), team.rows[row - 1].times.exchange_share());
        EXPECT_GT(team.rows[row].tokens_per_second, team.rows[row - 1].tokens_per_second);
    }
}

TEST_F(AdviseTeamTest, WorkersThatFindNothingToDoAreSaid) {
    // Of 40 grains, one of 30 workers has two, as each of 20.
    const TeamAdvice team = advice({.workers = 30, .link = link_for(30, 0.5)});
    EXPECT_EQ(team.enough_workers, 20);
    EXPECT_EQ(team.best_workers, 40);
    EXPECT_THAT(narrow_text(team), HasSubstr("For windows of 40 grains 20 are as fast"));
    EXPECT_THAT(narrow_text(advice({.workers = 20, .link = link_for(20, 0.5)})), Not(HasSubstr("are as fast.")));
}

TEST_F(AdviseTeamTest, WantOfMemoryIsTheTeamsToo) {
    alone_.lost_to_memory = 0.3;
    EXPECT_EQ(advice({.workers = 4, .link = link_for(4, 0.1)}).judgement.bound, Bound::memory_capacity);
}

// They share out one machine: nothing is faster, and every one of them updates.
TEST_F(AdviseTeamTest, ProcessesOfOneMachineAreNotAddedForTheirSpeed) {
    const TeamAdvice predicted = advice({.workers = 4});
    EXPECT_NEAR(predicted.times.compute_seconds, 40, 1e-9);
    EXPECT_NEAR(predicted.times.update_seconds, 8, 1e-9);
    EXPECT_LT(predicted.gain, 1);
    EXPECT_FALSE(predicted.is_gain_measured);
    EXPECT_THAT(narrow_text(predicted), HasSubstr("Do not add workers here to be faster"));
    EXPECT_EQ(predicted.best_workers, 1);

    const TeamMeasurements measured{
        .here = {.windows = 3, .seconds = 21, .exchange_seconds = 1, .exchange_bytes = 4096}};
    const TeamAdvice faster = advice({.workers = 4}, measured);
    EXPECT_TRUE(faster.is_gain_measured);
    EXPECT_NEAR(faster.gain, 2, 1e-9);
    const std::string text = narrow_text(faster);
    EXPECT_THAT(text, HasSubstr("2.00 times as fast as one process with all threads (measured)"));
    EXPECT_THAT(text, HasSubstr("4.00 KiB"));
}

TEST_F(AdviseTeamTest, WhatDidNotRunHereIsSaid) {
    const TeamAdvice team = advice({.workers = 4, .link = 1e9}, {.here = {.fault = "there is no memory for them."}});
    EXPECT_THAT(narrow_text(team), HasSubstr("do not run on this machine: there is no"));
    EXPECT_TRUE(team_advice_json(team).at("measured_on_this_machine").is_null());
}

TEST_F(AdviseTeamTest, TheJsonHasTheSameFigures) {
    const TeamAdvice team =
        advice({.workers = 4, .link = link_for(4, 3.0)},
               {.here = {.windows = 3, .seconds = 50, .exchange_seconds = 2}, .in_run = {.windows = 7, .seconds = 60}});
    const nlohmann::json json = nlohmann::json::parse(team_advice_json(team).dump());
    EXPECT_EQ(json.at("predicted").at("exchange_seconds"), team.times.exchange_seconds);
    EXPECT_EQ(json.at("measured_on_this_machine").at("window_seconds"), 50);
    EXPECT_EQ(json.at("measured_in_run").at("windows"), 7);
    EXPECT_THAT(narrow_text(team), HasSubstr("4 workers in that run, 7 windows"));
    EXPECT_EQ(json.at("accumulation").size(), team.rows.size());
    EXPECT_EQ(json.at("grains_for_a_tenth"), *team.calm_grains);
    EXPECT_EQ(json.at("bound"), "compute");
}

}  // namespace
}  // namespace accrue
