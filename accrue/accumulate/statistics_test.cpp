#include "accrue/accumulate/statistics.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/random.h"

namespace accrue {
namespace {

TEST(StatisticsTest, EqualGrainsHaveNoNoise) {
    GrainLedger ledger(4, 1);
    for (int64_t grain = 0; grain < 4; ++grain) {
        ledger.grain(grain) = {.finished = true, .loss_sum = 1, .counted_tokens = 10};
        ledger.record(grain, 0).squares = 900;  // |gradient per token| = 3
    }
    const GrainStatistics statistics = grain_statistics(ledger, 3.0);
    EXPECT_DOUBLE_EQ(statistics.norm_mean, 3.0);
    EXPECT_DOUBLE_EQ(statistics.norm_variance, 0.0);
    EXPECT_NEAR(statistics.noise_scale.value(), 0.0, 1e-12);
}

TEST(StatisticsTest, OneGrainOrNoneTellsNothingOfNoise) {
    GrainLedger one(1, 1);
    one.grain(0) = {.finished = true, .loss_sum = 1, .counted_tokens = 10};
    one.record(0, 0).squares = 100;
    EXPECT_FALSE(grain_statistics(one, 1.0).noise_scale.has_value());
    EXPECT_DOUBLE_EQ(grain_statistics(one, 1.0).norm_mean, 1.0);
    EXPECT_FALSE(grain_statistics(GrainLedger(3, 1), 0.0).noise_scale.has_value());
}

// Token gradients drawn around a known mean with a known covariance; grains of different sizes.
TEST(StatisticsTest, NoiseScaleFindsThePlantedRatio) {
    constexpr int64_t kDimensions = 50;
    constexpr int64_t kGrains = 400;
    constexpr double kDeviation = 2.0;
    GrainLedger ledger(kGrains, 1);
    std::vector<double> total(kDimensions, 0.0);
    int64_t tokens = 0;
    for (int64_t grain = 0; grain < kGrains; ++grain) {
        const int64_t size = 5 + grain % 20;
        std::vector<double> sum(kDimensions, 0.0);
        for (int64_t d = 0; d < kDimensions; ++d) {
            const double noise =
                std::sqrt(static_cast<double>(size)) * kDeviation *
                static_cast<double>(normal(mix(7, static_cast<uint64_t>(grain), static_cast<uint64_t>(d))));
            sum[static_cast<size_t>(d)] = static_cast<double>(size) * 1.0 + noise;
            total[static_cast<size_t>(d)] += sum[static_cast<size_t>(d)];
            ledger.record(grain, 0).squares += sum[static_cast<size_t>(d)] * sum[static_cast<size_t>(d)];
        }
        ledger.grain(grain) = {.finished = true, .loss_sum = 0, .counted_tokens = size};
        tokens += size;
    }
    double squares = 0;
    for (const double value : total) {
        squares += value * value;
    }
    const double planted = kDeviation * kDeviation;  // tr S / |G|^2 = 50 * 4 / 50
    const double found = grain_statistics(ledger, std::sqrt(squares) / static_cast<double>(tokens)).noise_scale.value();
    EXPECT_NEAR(found, planted, 0.05 * planted);  // 20,000 draws: about 1% of sampling error
}

}  // namespace
}  // namespace accrue
