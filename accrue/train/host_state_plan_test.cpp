// Plans for a GPU whose state lies in the host's memory. Needs no GPU: the device is a dry one.
#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/model/families.h"
#include "accrue/train/plan_choice.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kSequence = 128;
constexpr HostState kStates[] = {HostState::none, HostState::moments, HostState::sums};

MemoryBound bound(int64_t bytes, const std::string& reason) {
    return {.bytes = bytes, .reason = reason, .address_bytes = std::numeric_limits<int64_t>::max()};
}

class HostStatePlanTest : public ::testing::Test {
protected:
    [[nodiscard]] static Settings job(HostState state) {
        Settings settings;
        settings.window = {.samples = 64, .grain_samples = 2, .micro_batch_grains = 2};
        settings.compute.device = DeviceKind::cuda;
        settings.compute.host_state = state;
        return settings;
    }
    [[nodiscard]] Planner planner(const Settings& settings) const { return {settings, model_, kSequence, 1}; }
    [[nodiscard]] Planner planner(HostState state) const { return planner(job(state)); }

    std::shared_ptr<const ModelSpec> model_ = known_families().shaped("tiny", {.layers = 3, .vocabulary = 4096}, {});
};

TEST_F(HostStatePlanTest, BothMemoriesTogetherTakeWhatOneDid) {
    for (const MomentFormat moments : {MomentFormat::fp32, MomentFormat::eight_bits}) {
        for (const Choices& choices :
             {Choices{},
              Choices{.blocks = {}, .weight_copy = Choices::WeightCopy::converted_per_tile, .waiting_grains = 8},
              Choices{.blocks = std::vector<Recompute>(3, Recompute::block), .waiting_grains = 2}}) {
            std::optional<Plan> whole;
            for (const HostState state : kStates) {
                SCOPED_TRACE(cat(word_of(moments), ", ", word_of(state), ", ", choices.waiting_grains));
                Settings settings = job(state);
                settings.optimizer.moments = moments;
                const Plan plan = planner(settings).plan_of(choices, 2);
                whole = whole ? whole : std::optional(plan);
                EXPECT_EQ(plan.parts.sums, whole->parts.sums);
                EXPECT_EQ(plan.parts.moments, whole->parts.moments);
                EXPECT_GT(plan.parts.moments, 0);
                EXPECT_EQ(plan.resident_bytes + plan.host_bytes, whole->resident_bytes);
                EXPECT_EQ(plan.arena_bytes + plan.host_bytes, whole->arena_bytes);
                EXPECT_EQ(plan.host_bytes, (state == HostState::none ? 0 : plan.parts.moments) +
                                               (state == HostState::sums ? plan.parts.sums : 0));
                const ArenaPlan alone = plan_arena(settings, model_, kSequence, 1, choices);
                EXPECT_EQ(alone.peak_bytes, plan.arena_bytes);
                EXPECT_EQ(alone.host_bytes, plan.host_bytes);
            }
        }
    }
}

// Whatever was planned before: an engine that begins with its choices has its blocks in the same places. In a micro-batch of
// one grain, the first grain of a run takes the most, because its gradients cannot wait.
TEST_F(HostStatePlanTest, AChangedPlanTakesTheSameAsOneFromTheStart) {
    for (const HostState state : kStates) {
        Planner plans = planner(state);
        for (const int64_t waiting : {8, 0, 2, 4}) {
            for (const auto copy : {Choices::WeightCopy::converted_per_tile, Choices::WeightCopy::kept}) {
                for (const int64_t grains : {2, 4, 1}) {
                    SCOPED_TRACE(cat(word_of(state), ", ", waiting, ", ", word_of(copy), ", ", grains));
                    const Choices choices{.blocks = {}, .weight_copy = copy, .waiting_grains = waiting};
                    Settings settings = job(state);
                    settings.window.micro_batch_grains = grains;
                    const ArenaPlan alone = plan_arena(settings, model_, kSequence, 1, choices);
                    const Plan plan = plans.plan_of(choices, grains);
                    EXPECT_EQ(plan.arena_bytes, alone.peak_bytes);
                    EXPECT_EQ(plan.resident_bytes, alone.resident_bytes);
                }
            }
        }
    }
}

TEST_F(HostStatePlanTest, WhatGoesOverTheBusTakesTime) {
    const Rates rates = Rates::typical(job(HostState::none), 1);
    ASSERT_GT(rates.bus_bytes, 0);
    const auto seconds = [&](HostState state, int64_t waiting) {
        const Plan plan = planner(state).plan_of({.blocks = {}, .waiting_grains = waiting}, 2);
        return plan.window_seconds(32, rates);
    };
    EXPECT_LT(seconds(HostState::none, 8), seconds(HostState::moments, 8));
    EXPECT_LT(seconds(HostState::moments, 8), seconds(HostState::sums, 8));
    // Two grains of a micro-batch are added in one pass, eight that wait in one too.
    const Plan together = planner(HostState::sums).plan_of({.blocks = {}, .waiting_grains = 8}, 2);
    const Plan alone = planner(HostState::sums).plan_of({}, 2);
    EXPECT_EQ(alone.bus.micro_batch, 4 * together.bus.micro_batch);
    EXPECT_EQ(alone.bus.micro_batch, static_cast<double>(alone.parts.sums));
    EXPECT_EQ(alone.bus.update, static_cast<double>(3 * alone.parts.sums + alone.parts.moments));
    EXPECT_EQ(planner(HostState::moments).plan_of({}, 2).bus.micro_batch, 0);
    EXPECT_EQ(planner(HostState::none).plan_of({}, 2).bus.update, 0);
}

// Sums on the host are touched as seldom as memory allows, so there are more steps between all and none.
TEST_F(HostStatePlanTest, GrainsWaitWhereSumsLieOnTheHost) {
    const auto waiting_in_frontier = [&](HostState state) {
        Planner plans = planner(state);
        EXPECT_EQ(plans.unlimited().choices.waiting_grains, 8);
        std::set<int64_t> waiting;
        for (const Plan& plan : plans.frontier(Rates::typical(plans.settings(), 1))) {
            waiting.insert(plan.choices.waiting_grains);
        }
        return waiting;
    };
    EXPECT_THAT(waiting_in_frontier(HostState::sums), testing::Contains(4));
    EXPECT_THAT(waiting_in_frontier(HostState::none), Not(testing::Contains(4)));
}

TEST_F(HostStatePlanTest, AGpuThatIsTooSmallIsToldWhatTheHostCouldHold) {
    const ProcessBase base{.held_bytes = int64_t{500} << 20, .peak_bytes = 0};
    const auto text = [&](HostState state) {
        Planner plans = planner(state);
        const Plan smallest = plans.frontier(Rates::typical(plans.settings(), 1)).back();
        return refusal_text(bound(1, "the test says so"), base, plans, smallest);
    };
    const std::string none = text(HostState::none);
    EXPECT_THAT(none,
                HasSubstr("With compute.host_state = \"moments\", which changes no bit but takes longer, it would "
                          "need "));
    EXPECT_THAT(none, HasSubstr("With compute.host_state = \"sums\", which changes no bit"));
    EXPECT_THAT(none, HasSubstr(" of the machine's memory."));
    EXPECT_LT(none.find("compute.host_state"), none.find("optimizer.moments")) << "what changes no bit comes first";
    EXPECT_THAT(none, HasSubstr("With window.grain_samples = 1, which changes the result"));
    EXPECT_THAT(text(HostState::moments), Not(HasSubstr("host_state = \"moments\"")));
    EXPECT_THAT(text(HostState::moments), HasSubstr("host_state = \"sums\""));
    EXPECT_THAT(text(HostState::sums), Not(HasSubstr("host_state")));
}

TEST_F(HostStatePlanTest, TheMachineMustHaveRoomForItBeforeTheFirstStep) {
    const auto plenty = [] { return bound(int64_t{1} << 40, "plenty"); };
    const auto little = [] { return bound(1000, "the machine can give 1000 B"); };
    const auto choice = [&](HostState state, const MemorySource& machine) {
        return PlanChoice(job(state), model_, kSequence, 1, plenty, machine);
    };
    EXPECT_EQ(choice(HostState::none, little).plan().host_bytes, 0) << "nobody asks";
    EXPECT_GT(choice(HostState::sums, plenty).plan().host_bytes, 0);
    for (const HostState state : {HostState::moments, HostState::sums}) {
        try {
            (void)choice(state, little);
            FAIL() << "1000 bytes are not enough";
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr(cat("compute.host_state is \"", word_of(state), "\", so ")));
            EXPECT_THAT(error.what(), HasSubstr("lie in the machine's memory ("));
            EXPECT_THAT(error.what(), HasSubstr("but the machine can give 1000 B. Free that much, or "));
            EXPECT_THAT(error.what(), HasSubstr("leave compute.host_state at \"none\""));
            EXPECT_THAT(error.what(), HasSubstr("optimizer.moments = \"8bit\", which changes the result"));
        }
    }
}

TEST_F(HostStatePlanTest, WhatLiesOnTheHostCountsInFull) {
    Planner plans = planner(HostState::sums);
    const Plan plan = plans.unlimited();
    const ProcessBase base{.held_bytes = int64_t{100} << 20, .peak_bytes = 0};
    const int64_t needed = host_process_bytes(base, plans, plan);
    EXPECT_GE(needed, base.held_bytes + plan.host_bytes);
    EXPECT_EQ(host_refusal_text(bound(needed, ""), base, plans, plan), "");
    EXPECT_NE(host_refusal_text(bound(needed - 1, ""), base, plans, plan), "");
    // And the GPU does not hold it.
    Planner whole = planner(HostState::none);
    const Plan alike = whole.plan_of(plan.choices, plan.micro_batch_grains);
    EXPECT_NEAR(static_cast<double>(process_bytes(base, whole, alike) - process_bytes(base, plans, plan)),
                static_cast<double>(plan.host_bytes), 2.0 * kHugePage);
}

}  // namespace
}  // namespace accrue
