#include "accrue/model/decoder/rope_table.h"

#include <cmath>

#include <gtest/gtest.h>

namespace accrue {
namespace {

double angle(const std::vector<float>& table, int64_t head, int64_t position, int64_t pair) {
    return std::atan2(table[static_cast<size_t>(position * head + head / 2 + pair)],
                      table[static_cast<size_t>(position * head + pair)]);
}

TEST(RopeTableTest, PlainAnglesFallGeometrically) {
    const auto table = rope_table({.kind = RopeConfig::Kind::plain, .theta = 10000}, 8, 3);
    EXPECT_NEAR(angle(table, 8, 0, 2), 0.0, 1e-7);
    EXPECT_NEAR(angle(table, 8, 2, 0), 2.0, 1e-6);
    EXPECT_NEAR(angle(table, 8, 1, 1), 0.1, 1e-7);
    EXPECT_NEAR(angle(table, 8, 1, 3), 0.001, 1e-8);
}

TEST(RopeTableTest, LinearScalingDividesPositions) {
    const auto plain = rope_table({.kind = RopeConfig::Kind::plain}, 8, 9);
    const auto linear = rope_table({.kind = RopeConfig::Kind::linear, .factor = 4}, 8, 9);
    for (int64_t pair = 0; pair < 4; ++pair) {
        EXPECT_NEAR(angle(linear, 8, 8, pair), angle(plain, 8, 2, pair), 1e-6);
    }
}

// The golden case llama3-rope covers the blend; here its two ends.
TEST(RopeTableTest, Llama3KeepsShortWavesAndStretchesLongOnes) {
    const RopeConfig rope{.kind = RopeConfig::Kind::llama3,
                          .theta = 500000,
                          .factor = 8,
                          .low_frequency = 1,
                          .high_frequency = 4,
                          .original_positions = 8192};
    const auto plain = rope_table({.kind = RopeConfig::Kind::plain, .theta = 500000}, 128, 2);
    const auto scaled = rope_table(rope, 128, 2);
    EXPECT_NEAR(angle(scaled, 128, 1, 0), angle(plain, 128, 1, 0), 1e-7);
    EXPECT_NEAR(angle(scaled, 128, 1, 63), angle(plain, 128, 1, 63) / 8, 1e-12);
}

}  // namespace
}  // namespace accrue
