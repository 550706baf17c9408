#include "accrue/train/generate.h"

#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace accrue {
namespace {

const std::vector<float> kScores = {0.0F, 3.0F, 1.0F, 2.0F};

std::set<int32_t> chosen(const SamplingSettings& settings) {
    std::set<int32_t> tokens;
    for (uint64_t place = 0; place < 500; ++place) {
        tokens.insert(choose_token(kScores, settings, place));
    }
    return tokens;
}

TEST(GenerateTest, TemperatureZeroTakesTheLikeliest) {
    EXPECT_EQ(chosen({.temperature = 0}), std::set<int32_t>{1});
}

TEST(GenerateTest, TopKAndTopPLeaveOutTheUnlikely) {
    EXPECT_EQ(chosen({.temperature = 5}), (std::set<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(chosen({.temperature = 5, .top_k = 2}), (std::set<int32_t>{1, 3}));
    EXPECT_EQ(chosen({.temperature = 1, .top_p = 0.6}), std::set<int32_t>{1});  // e^3 of the whole is 0.64
    EXPECT_EQ(chosen({.temperature = 1, .top_p = 0.7}), (std::set<int32_t>{1, 3}));
}

TEST(GenerateTest, ScoresThatAreNoNumbersAreNotChosen) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (uint64_t place = 0; place < 50; ++place) {
        EXPECT_EQ(choose_token({kNan, 1.0F, kNan, -kInfinity}, {.temperature = 1}, place), 1);
        EXPECT_EQ(choose_token({kNan, 1.0F, kInfinity}, {.temperature = 1}, place), 2);
        EXPECT_EQ(choose_token({kNan, kNan}, {.temperature = 1}, place), 0);
    }
}

TEST(GenerateTest, FrequenciesFollowTheProbabilities) {
    int64_t ones = 0;
    for (uint64_t place = 0; place < 20'000; ++place) {
        ones += choose_token(kScores, {.temperature = 1, .seed = 5}, place) == 1 ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(ones) / 20'000, 0.6439, 0.02);  // sampling error 0.0034
}

}  // namespace
}  // namespace accrue
