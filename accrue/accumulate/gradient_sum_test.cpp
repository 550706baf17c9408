#include "accrue/accumulate/gradient_sum.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/accumulate/gradient_probe.h"
#include "accrue/base/error.h"
#include "accrue/base/random.h"
#include "accrue/kernels/device.h"

namespace accrue {
namespace {

// Sends made-up gradients as gradients that come from elsewhere.
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
        const GradientSink::Grain one{.number = grain, .counted_tokens = 2};
        sink.begin(std::span(&one, 1));
        kernels_->run(
            op::AddGradient{.values = View<const float>(values.data(), 1, kElements), .sum = sink.sum_of(grain, 0)});
        const double loss = 1.0;
        upload(*kernels_, std::span(&loss, 1), sink.loss_sums().data);
        sink.end();
    }
    [[nodiscard]] Units units_for(int64_t grain, double scale) {
        GradientProbe probe({{.rows = 1, .columns = kElements}}, grain + 1, *kernels_);
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
        const auto* sums = reinterpret_cast<const int64_t*>(sum.device_bytes().data());
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
    for (const SumKind kind : {SumKind::exact, SumKind::fp32, SumKind::bf16, SumKind::bf16_stochastic,
                               SumKind::bf16_kahan}) {  // 3, 5 and 8 are numbers of all of them
        GradientSum sum = make_sum(kind);
        sum.open(2, units_for(0, 1.0));
        add(sum, 0, std::vector<float>(kElements, 3.0F));
        add(sum, 1, std::vector<float>(kElements, 5.0F));
        const MeanGradient mean = sum.mean();  // 8 over 4 tokens
        EXPECT_NEAR(mean.norm(*kernels_), 2.0 * std::sqrt(static_cast<double>(kElements)), 1e-9);
        EXPECT_NEAR(mean.scaled(0.5).norm(*kernels_), std::sqrt(static_cast<double>(kElements)), 1e-9);
    }
}

// Gradients come multiplied by a power of two; sums and records are those of the gradient itself.
TEST_F(GradientSumTest, TheLossScaleIsTakenOut) {
    const std::vector<float> values = gradient(0, 1.0);
    std::vector<float> scaled = values;
    for (float& value : scaled) {
        value *= 512;
    }
    for (const SumKind kind :
         {SumKind::exact, SumKind::fp32, SumKind::bf16, SumKind::bf16_stochastic, SumKind::bf16_kahan}) {
        GradientSum plain = make_sum(kind);
        plain.open(1, Units({-38}), 5);
        add(plain, 0, values);
        GradientSum sum = make_sum(kind);
        sum.open(1, Units({-38}), 5, 512);
        EXPECT_EQ(sum.loss_scale(), 512);
        add(sum, 0, scaled);
        EXPECT_EQ(sum.ledger(), plain.ledger());
        EXPECT_EQ(bytes_of(sum.source()), bytes_of(plain.source()));
    }
    GradientProbe plain({{.rows = 1, .columns = kElements}}, 1, *kernels_);
    add(plain, 0, values);
    GradientProbe probe({{.rows = 1, .columns = kElements}}, 1, *kernels_, 512);
    add(probe, 0, scaled);
    EXPECT_EQ(probe.ledger(), plain.ledger());
}

TEST_F(GradientSumTest, SumsThatDoNotBelongTogetherAreRefused) {
    GradientSum a = make_sum(SumKind::exact);
    GradientSum b = make_sum(SumKind::exact);
    a.open(2, Units({-30}));
    b.open(2, Units({-31}));
    EXPECT_THROW(a.add(b), Error);
    for (const SumKind kind : {SumKind::fp32, SumKind::bf16, SumKind::bf16_stochastic, SumKind::bf16_kahan}) {
        GradientSum c = make_sum(kind);
        c.open(2, {});
        EXPECT_THROW(a.add(c), Error);
        EXPECT_THROW(c.add(c), Error) << "only exact sums have no order";
    }
    b.open(2, Units({-30}));
    add(a, 0, gradient(0, 1.0));
    add(b, 0, gradient(0, 1.0));
    EXPECT_THROW(a.add(b), Error) << "the same grain twice";
}

// 64 grains whose values are all positive: rounding to nearest loses what is small beside the sum, chance does not.
class Bf16SumsTest : public GradientSumTest {
protected:
    static constexpr int64_t kGrains = 64;

    Bf16SumsTest() {
        for (int64_t grain = 0; grain < kGrains; ++grain) {
            positive_.push_back(gradient(grain, 0.1));
            for (float& value : positive_.back()) {
                value = 0.3F + std::abs(value);
            }
        }
    }
    // The sums of all elements, after a first grain that is large.
    std::vector<double> sums_of(SumKind kind, uint64_t seed) {
        GradientSum sum = make_sum(kind);
        sum.open(kGrains + 1, Units({-38}), seed);
        add(sum, 0, std::vector<float>(kElements, 200.0F));
        for (int64_t grain = 1; grain <= kGrains; ++grain) {
            add(sum, grain, positive_[static_cast<size_t>(grain - 1)]);
        }
        const MeanView mean = sum.mean().of(0);
        std::vector<double> result;
        for (int64_t i = 0; i < kElements; ++i) {
            result.push_back(mean.at(i) * static_cast<double>(sum.ledger().counted_tokens()));
        }
        return result;
    }
    static double mean_of(const std::vector<double>& values) {
        double sum = 0;
        for (const double value : values) {
            sum += value;
        }
        return sum / static_cast<double>(values.size());
    }

    std::vector<std::vector<float>> positive_;
};

// Over many seeds the mean of stochastic sums must be the exact sum, within four standard errors; a sum rounded to
// nearest is off by far more, because what is added is less than half of its last place.
TEST_F(Bf16SumsTest, StochasticSumsAreUnbiasedAndNearestOnesAreNot) {
    constexpr uint64_t kSeeds = 200;
    const std::vector<double> exact = sums_of(SumKind::exact, 0);
    std::vector<double> errors;
    double squares = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const std::vector<double> sums = sums_of(SumKind::bf16_stochastic, seed);
        for (size_t i = 0; i < sums.size(); ++i) {
            errors.push_back(sums[i] - exact[i]);
            squares += errors.back() * errors.back();
        }
    }
    const auto count = static_cast<double>(errors.size());
    const double standard_error = std::sqrt(squares) / count;
    EXPECT_LT(std::abs(mean_of(errors)), 4 * standard_error);
    // The last place of 200 is 1; 64 roundings by chance wander by about half the root of 64 of it.
    EXPECT_NEAR(std::sqrt(squares / count), 4, 1);

    const std::vector<double> nearest = sums_of(SumKind::bf16, 0);
    EXPECT_LT(mean_of(nearest), mean_of(exact) - 10) << "sums stay at 200";
}

TEST_F(Bf16SumsTest, EachElementHasItsOwnChance) {
    const std::vector<double> sums = sums_of(SumKind::bf16_stochastic, 1);
    EXPECT_EQ(sums_of(SumKind::bf16_stochastic, 1), sums);
    const std::vector<double> others = sums_of(SumKind::bf16_stochastic, 2);
    size_t same = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
        same += sums[i] == others[i] ? 1 : 0;
    }
    EXPECT_LT(same, sums.size() / 2);
}

// What a rounding loses is added with the next grain: only the last places of 16 binary digits are in doubt.
TEST_F(Bf16SumsTest, KahanSumsAreFarCloserThanTheirFormat) {
    const std::vector<double> exact = sums_of(SumKind::exact, 0);
    const std::vector<double> kahan = sums_of(SumKind::bf16_kahan, 0);
    for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_NEAR(kahan[i], exact[i], 64 * 0x1p-17 * exact[i]);
    }
}

// A grain without a gradient for an element may be added or left out: a tied embedding does both.
TEST_F(Bf16SumsTest, AddingZeroChangesNothing) {
    for (const SumKind kind : {SumKind::bf16, SumKind::bf16_stochastic, SumKind::bf16_kahan}) {
        GradientSum sum = make_sum(kind);
        sum.open(kGrains, {}, 7);
        for (int64_t grain = 0; grain < kGrains; ++grain) {
            add(sum, grain, grain % 2 == 0 ? gradient(grain, 1.0) : std::vector<float>(kElements, 0.0F));
        }
        GradientSum without = make_sum(kind);
        without.open(kGrains, {}, 7);
        for (int64_t grain = 0; grain < kGrains; grain += 2) {
            add(without, grain, gradient(grain, 1.0));
        }
        EXPECT_TRUE(std::ranges::equal(sum.device_bytes(), without.device_bytes()));
    }
}

TEST_F(GradientSumTest, AGrainThatIsNotFiniteIsRecordedAndAddsNothing) {
    GradientSum sum = make_sum(SumKind::exact);
    sum.open(2, Units({-38}));
    std::vector<float> values(kElements, 1.0F);
    values[7] = NAN;
    values[8] = INFINITY;
    add(sum, 1, values);
    EXPECT_EQ(sum.ledger().first_bad()->grain, 1);
    const auto* sums = reinterpret_cast<const int64_t*>(sum.device_bytes().data());
    EXPECT_EQ(sums[7], 0);
    EXPECT_EQ(sums[8], 0);
    EXPECT_EQ(sums[9], int64_t{1} << 38);
}

// As workers exchange them: integers in ranges, and ledgers.
TEST_F(GradientSumTest, PartsThatAreExchangedAsIntegersGiveTheSumOfAll) {
    const Units units = units_for(0, 1.0);
    GradientSum whole = make_sum(SumKind::exact);
    whole.open(3, units);
    for (const int64_t grain : {0, 1, 2}) {
        add(whole, grain, gradient(grain, 1.0));
    }
    GradientSum mine = make_sum(SumKind::exact);
    mine.open(3, units);
    add(mine, 1, gradient(1, 1.0));
    GradientSum theirs = make_sum(SumKind::exact);
    theirs.open(3, units);
    add(theirs, 2, gradient(2, 1.0));
    add(theirs, 0, gradient(0, 1.0));

    std::vector<int64_t> integers(kElements);
    theirs.read_integers(0, std::span(integers).first(100));
    theirs.read_integers(100, std::span(integers).subspan(100));
    mine.add(integers, theirs.ledger());
    EXPECT_TRUE(std::ranges::equal(mine.device_bytes(), whole.device_bytes()));
    EXPECT_EQ(mine.ledger(), whole.ledger());

    mine.read_integers(0, integers);
    theirs.replace(integers, mine.ledger());
    EXPECT_TRUE(std::ranges::equal(theirs.device_bytes(), whole.device_bytes()));
    EXPECT_EQ(theirs.ledger(), whole.ledger());
    EXPECT_THROW(theirs.add(integers, mine.ledger()), Error) << "its grains are in already";
    EXPECT_TRUE(std::ranges::equal(theirs.device_bytes(), whole.device_bytes()))
        << "a refused part must leave the sum as it was";
}

TEST_F(GradientSumTest, OnlyExactSumsOfTheSameSizeAreExchanged) {
    GradientSum exact = make_sum(SumKind::exact);
    exact.open(1, units_for(0, 1.0));
    std::vector<int64_t> integers(kElements);
    EXPECT_THROW(exact.read_integers(1, integers), Error);
    EXPECT_THROW(exact.read_integers(-1, integers), Error);
    EXPECT_THROW(exact.add(std::span(integers).first(10), GrainLedger(1, 1)), Error);
    EXPECT_THROW(exact.replace(std::span(integers).first(10), GrainLedger(1, 1)), Error);
    GradientSum plain = make_sum(SumKind::fp32);
    plain.open(1, {});
    EXPECT_THROW(plain.read_integers(0, integers), Error);
    EXPECT_THROW(plain.add(integers, GrainLedger(1, 1)), Error);
    EXPECT_THROW(plain.replace(integers, GrainLedger(1, 1)), Error);
}

}  // namespace
}  // namespace accrue
