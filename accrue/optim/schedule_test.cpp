#include "accrue/optim/schedule.h"

#include <cmath>

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(ScheduleTest, WarmupRisesToOneAndTheRestFallsTowardsTheFinalFraction) {
    for (const auto kind : {Schedule::Kind::linear, Schedule::Kind::cosine}) {
        const Schedule schedule{.kind = kind, .steps = 100, .warmup_steps = 10, .final_fraction = 0.1};
        EXPECT_DOUBLE_EQ(schedule.factor(0), 0.1);
        EXPECT_DOUBLE_EQ(schedule.factor(9), 1.0);
        EXPECT_DOUBLE_EQ(schedule.factor(10), 1.0);
        EXPECT_NEAR(schedule.factor(55), 0.55, 1e-12);  // half way, both shapes
        EXPECT_DOUBLE_EQ(schedule.factor(100), 0.1);
        for (int64_t step = 11; step < 100; ++step) {
            EXPECT_LT(schedule.factor(step), schedule.factor(step - 1));
            EXPECT_GT(schedule.factor(step), 0.1);
        }
    }
}

TEST(ScheduleTest, ConstantStaysAndWsdFallsOnlyAtTheEnd) {
    const Schedule constant{.kind = Schedule::Kind::constant, .steps = 10};
    EXPECT_DOUBLE_EQ(constant.factor(0), 1.0);
    EXPECT_DOUBLE_EQ(constant.factor(9), 1.0);
    const Schedule wsd{
        .kind = Schedule::Kind::wsd, .steps = 100, .warmup_steps = 5, .final_fraction = 0, .decay_fraction = 0.2};
    EXPECT_DOUBLE_EQ(wsd.factor(4), 1.0);
    EXPECT_DOUBLE_EQ(wsd.factor(80), 1.0);
    EXPECT_DOUBLE_EQ(wsd.factor(90), 0.5);
    EXPECT_DOUBLE_EQ(wsd.factor(100), 0.0);
}

TEST(ScheduleTest, TheRateFollowsTheWindowByTheRule) {
    EXPECT_DOUBLE_EQ(scaled_rate(1e-3, RateRule::sqrt, 64, 0), 1e-3);
    EXPECT_DOUBLE_EQ(scaled_rate(1e-3, RateRule::none, 64, 16), 1e-3);
    EXPECT_DOUBLE_EQ(scaled_rate(1e-3, RateRule::sqrt, 64, 16), 2e-3);
    EXPECT_DOUBLE_EQ(scaled_rate(1e-3, RateRule::linear, 64, 16), 4e-3);
}

TEST(ScheduleTest, HalfOfTheSecondMomentIsGoneAfterTheHalfLifeWhateverTheWindow) {
    for (const double window_tokens : {10.0, 100.0, 500.0}) {
        const double beta2 = beta2_for_half_life(1000, window_tokens);
        EXPECT_NEAR(std::pow(beta2, 1000 / window_tokens), 0.5, 1e-12);
    }
}

TEST(ScheduleTest, ClippingOnlyEverShrinks) {
    EXPECT_DOUBLE_EQ(clip_factor(0.5, 1.0), 1.0);
    EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 0.25);
    EXPECT_DOUBLE_EQ(clip_factor(4.0, 0.0), 1.0);
}

}  // namespace
}  // namespace accrue
