#include "accrue/assess/advise_window.h"

#include <cmath>

#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

using testing::HasSubstr;

// 32 samples of 256 tokens in one second, a hundredth of it for the update.
WindowFacts facts_with(std::optional<double> noise_tokens, double fixed_seconds = 0.01) {
    return {.tokens = 8192,
            .sample_tokens = 256,
            .seconds = 1,
            .fixed_seconds = fixed_seconds,
            .noise = NoiseScale{.steps = 20, .below_noise = 0, .tokens = noise_tokens}};
}

TEST(AdviseWindowTest, TheRateFollowsTheWindowByTheOptimizersRule) {
    Settings::Optimizer optimizer;
    const WindowAdvice adam = advise_window(optimizer, 32, facts_with(8192));
    EXPECT_NEAR(adam.half.rate, optimizer.rate / std::sqrt(2), 1e-12);
    EXPECT_NEAR(adam.twice.rate, optimizer.rate * std::sqrt(2), 1e-12);
    optimizer.name = OptimizerKind::sgd;
    const WindowAdvice sgd = advise_window(optimizer, 32, facts_with(8192));
    EXPECT_NEAR(sgd.half.rate, optimizer.rate / 2, 1e-12);
    EXPECT_NEAR(sgd.twice.rate, optimizer.rate * 2, 1e-12);
    EXPECT_EQ(sgd.half_life_tokens, 0);
    optimizer.rate_samples = 8;  // tuned for a quarter of the window, and followed by the square root
    EXPECT_NEAR(advise_window(optimizer, 32, facts_with(8192)).rate, optimizer.rate * 2, 1e-12);
}

TEST(AdviseWindowTest, TheSecondMomentIsAsOldInTokensInEveryWindow) {
    Settings::Optimizer optimizer;
    optimizer.beta2 = 0.5;
    const WindowAdvice advice = advise_window(optimizer, 32, facts_with(8192));
    EXPECT_NEAR(advice.half_life_steps, 1, 1e-12);
    EXPECT_NEAR(advice.half_life_tokens, 8192, 1e-9);
    EXPECT_NEAR(advice.half.beta2, std::sqrt(0.5), 1e-12);
    EXPECT_NEAR(advice.twice.beta2, 0.25, 1e-12);
    optimizer.beta2_half_life_tokens = 16384;
    EXPECT_NEAR(advise_window(optimizer, 32, facts_with(8192)).half_life_steps, 2, 1e-12);
    optimizer.beta2_half_life_tokens = 0;
    optimizer.beta2 = 0;
    EXPECT_EQ(advise_window(optimizer, 32, facts_with(8192)).half_life_tokens, 0);
}

TEST(AdviseWindowTest, AWindowFarAboveTheNoiseScaleIsTooLarge) {
    const WindowAdvice advice = advise_window({}, 32, facts_with(1024));
    ASSERT_EQ(advice.sizing, WindowSizing::too_large);
    ASSERT_TRUE(advice.better);
    EXPECT_EQ(advice.better->samples, 4);
    EXPECT_NEAR(advice.better_tokens, 2.0 / 9, 1e-12);    // 1 + 1 instead of 1 + 8
    EXPECT_NEAR(advice.better_updates, 16.0 / 9, 1e-12);  // 1 + 1 instead of 1 + 1/8
    EXPECT_NEAR(advice.better_time, 16.0 / 9 * (0.99 / 8 + 0.01), 1e-12);
    EXPECT_LT(advice.better->rate, Settings::Optimizer().rate);
}

TEST(AdviseWindowTest, AWindowFarBelowTheNoiseScaleMayGrow) {
    const WindowAdvice advice = advise_window({}, 32, facts_with(819200));
    ASSERT_EQ(advice.sizing, WindowSizing::larger_pays);
    EXPECT_EQ(advice.better->samples, 64);
    EXPECT_NEAR(advice.better_tokens, 1.02 / 1.01, 1e-9);
    const WindowAdvice hidden = advise_window({}, 32, facts_with(std::nullopt));
    EXPECT_EQ(hidden.sizing, WindowSizing::larger_pays);
}

TEST(AdviseWindowTest, AWindowNearTheNoiseScaleStays) {
    for (const double noise : {4200.0, 8192.0, 30000.0}) {
        EXPECT_EQ(advise_window({}, 32, facts_with(noise)).sizing, WindowSizing::about_right) << noise;
    }
    WindowFacts unknown = facts_with(1);
    unknown.noise.reset();
    EXPECT_EQ(advise_window({}, 32, unknown).sizing, WindowSizing::unknown);
}

// Nine tenths of a window are paid once: a smaller one would pay them more often.
TEST(AdviseWindowTest, AnExpensiveSynchronisationForbidsASmallerWindow) {
    EXPECT_EQ(advise_window({}, 32, facts_with(1024, 0.9)).sizing, WindowSizing::about_right);
    EXPECT_EQ(advise_window({}, 32, facts_with(0)).better->samples, 1);
}

// A run folder whose steps have these noise scales ("null" = none could be told) of windows with so many grains.
class NoiseScaleTest : public ::testing::Test {
protected:
    void write_run(const std::vector<std::string>& noise_scales, int grains = 8) {
        std::string text;
        for (size_t i = 0; i < noise_scales.size(); ++i) {
            text += cat("{\"step\": ", i + 1, ", \"grains\": ", grains, ", \"noise_scale\": ", noise_scales[i], "}\n");
        }
        write_text(folder_ / "metrics.jsonl", text);
    }
    [[nodiscard]] std::string error() const {
        try {
            (void)read_noise_scale(folder_.path());
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }
    TemporaryFolder folder_;
};

TEST_F(NoiseScaleTest, IsTheMedianOfTheLastQuarter) {
    std::vector<std::string> scales(75, "5");  // long ago
    scales.insert(scales.end(), 11, "1000");
    scales.insert(scales.end(), 12, "1200");
    scales.insert(scales.end(), 2, "1e12");  // outliers
    write_run(scales);
    const NoiseScale noise = read_noise_scale(folder_.path());
    EXPECT_EQ(noise.steps, 25);
    EXPECT_EQ(noise.below_noise, 0);
    EXPECT_EQ(noise.tokens, 1200);
}

TEST_F(NoiseScaleTest, AStepWithoutSignalCountsAsALargeOne) {
    write_run({"10", "20", "30", "null", "null"});
    EXPECT_EQ(read_noise_scale(folder_.path()).tokens, 30);
    write_run({"10", "20", "null", "null", "null"});
    const NoiseScale hidden = read_noise_scale(folder_.path());
    EXPECT_EQ(hidden.tokens, std::nullopt);
    EXPECT_EQ(hidden.below_noise, 3);
}

TEST_F(NoiseScaleTest, AFolderWithoutOneIsRefused) {
    EXPECT_THAT(error(), HasSubstr("metrics.jsonl cannot be read. Give the folder of a run"));
    write_text(folder_ / "metrics.jsonl", "");
    EXPECT_THAT(error(), HasSubstr("metrics.jsonl holds no step yet"));
    write_run({"null", "null"}, 1);
    EXPECT_THAT(error(), HasSubstr("none of its 2 steps has two grains"));
    EXPECT_THROW((void)read_noise_scale(folder_ / "nowhere"), Error);
}

}  // namespace
}  // namespace accrue
