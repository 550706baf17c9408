#include "accrue/accumulate/gradient_sum.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/random.h"

namespace accrue {
namespace {

// Sends made-up gradients through the same kernel a bias gradient takes: one row whose values are the gradient.
class GradientSumTest : public ::testing::Test {
protected:
    static constexpr int64_t kElements = 300;

    [[nodiscard]] GradientSum make_sum(SumKind kind) {
        return GradientSum({{.offset = 0, .rows = 1, .columns = kElements}}, kElements, kind, *kernels_);
    }
    static std::vector<float> gradient(int64_t grain, double scale) {
        std::vector<float> values;
        for (int64_t i = 0; i < kElements; ++i) {
            values.push_back(static_cast<float>(
                scale * static_cast<double>(normal(mix(3, static_cast<uint64_t>(grain), static_cast<uint64_t>(i))))));
        }
        return values;
    }
    void add(GradientSink& sink, int64_t grain, std::vector<float> values) {
        kernels_->add_bias_grad(View<const float>(values.data(), 1, kElements), sink.sum_of(grain, 0));
        sink.finish_grain(grain, 1.0, 2);
    }
    [[nodiscard]] Units units_for(int64_t grain, double scale) {
        GradientProbe probe({{.rows = 1, .columns = kElements}}, grain + 1);
        add(probe, grain, gradient(grain, scale));
        return Units::first(probe.ledger().largest());
    }

    Arena arena_{int64_t{8} << 20};
    std::unique_ptr<Kernels> kernels_ = make_reference_kernels(arena_);
};

TEST_F(GradientSumTest, ExactSumsOf4096GrainsAreWithin1e9OfFloat64) {
    constexpr int64_t kGrains = 4096;
    for (const double last_step : {0.01, 1.0, 100.0}) {  // the last step's maximum within 100x
        GradientSum sum = make_sum(SumKind::exact);
        sum.open(kGrains, units_for(0, last_step));
        std::vector<double> expected(kElements, 0.0);
        for (int64_t grain = 0; grain < kGrains; ++grain) {
            const auto values = gradient(grain, 1.0);
            add(sum, grain, values);
            for (size_t i = 0; i < expected.size(); ++i) {
                expected[i] += static_cast<double>(values[i]);
            }
        }
        const auto* sums = reinterpret_cast<const int64_t*>(sum.bytes().data());
        double difference = 0;
        double norm = 0;
        for (size_t i = 0; i < expected.size(); ++i) {
            difference += std::pow(static_cast<double>(sums[i]) * sum.units().unit(0) - expected[i], 2);
            norm += expected[i] * expected[i];
        }
        EXPECT_LT(std::sqrt(difference / norm), 1e-9) << "last step's maximum x " << last_step;
        EXPECT_TRUE(sum.units().overflowing(sum.ledger().largest(), kGrains).empty());
    }
}

TEST_F(GradientSumTest, TheMeanIsTheSumOverTheCountTimesTheFactor) {
    for (const SumKind kind : {SumKind::exact, SumKind::fp32}) {
        GradientSum sum = make_sum(kind);
        sum.open(2, units_for(0, 1.0));
        add(sum, 0, std::vector<float>(kElements, 3.0F));
        add(sum, 1, std::vector<float>(kElements, 5.0F));
        const MeanGradient mean = sum.mean();  // 8 over 4 tokens
        EXPECT_NEAR(mean.norm(*kernels_), 2.0 * std::sqrt(static_cast<double>(kElements)), 1e-9);
        EXPECT_NEAR(mean.scaled(0.5).norm(*kernels_), std::sqrt(static_cast<double>(kElements)), 1e-9);
    }
}

TEST_F(GradientSumTest, SumsThatDoNotBelongTogetherAreRefused) {
    GradientSum a = make_sum(SumKind::exact);
    GradientSum b = make_sum(SumKind::exact);
    a.open(2, Units({-30}));
    b.open(2, Units({-31}));
    EXPECT_THROW(a.add(b), Error);
    GradientSum c = make_sum(SumKind::fp32);
    c.open(2, {});
    EXPECT_THROW(a.add(c), Error);
    b.open(2, Units({-30}));
    add(a, 0, gradient(0, 1.0));
    add(b, 0, gradient(0, 1.0));
    EXPECT_THROW(a.add(b), Error) << "the same grain twice";
}

TEST_F(GradientSumTest, AGrainThatIsNotFiniteIsRecordedAndAddsNothing) {
    GradientSum sum = make_sum(SumKind::exact);
    sum.open(2, Units({-38}));
    std::vector<float> values(kElements, 1.0F);
    values[7] = NAN;
    values[8] = INFINITY;
    add(sum, 1, values);
    EXPECT_EQ(sum.ledger().first_bad()->grain, 1);
    const auto* sums = reinterpret_cast<const int64_t*>(sum.bytes().data());
    EXPECT_EQ(sums[7], 0);
    EXPECT_EQ(sums[8], 0);
    EXPECT_EQ(sums[9], int64_t{1} << 38);
}

}  // namespace
}  // namespace accrue
