#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/pool.h"
#include "accrue/kernels/device.h"
#include "accrue/optim/adamw.h"
#include "accrue/optim/sgd.h"

namespace accrue {
namespace {

// One tensor of three weights and gradients given step by step, on the reference device.
class OptimizerTest : public ::testing::Test {
protected:
    void feed(Optimizer& optimizer, const std::vector<float>& gradient, const UpdateSettings& settings) {
        sum_.open(1, {});
        const GradientSink::Grain grain{.number = 0, .counted_tokens = 1};
        sum_.begin(std::span(&grain, 1));
        kernels_->run(op::AddGradient{.values = View<const float>(gradient.data(), 1, 3), .sum = sum_.sum_of(0, 0)});
        sum_.end();
        optimizer.update(sum_.mean(), settings,
                         {.master = View<float>(weights_.data(), 1, 3), .copy = View<Bf16>(copy_.data(), 1, 3)});
    }

    Arena arena_{int64_t{4} << 20};
    std::unique_ptr<Kernels> kernels_ = make_reference_kernels(arena_);
    GradientSum sum_{{{.offset = 0, .rows = 1, .columns = 3}}, 3, SumKind::fp32, *kernels_};
    std::vector<float> weights_ = {1.0F, -2.0F, 0.5F};
    std::vector<Bf16> copy_ = std::vector<Bf16>(3);
};

const std::vector<std::vector<float>> kGradients = {{0.1F, -0.2F, 0.0F}, {0.3F, 0.1F, -0.1F}, {-0.2F, 0.4F, 0.2F}};

TEST_F(OptimizerTest, AdamWFollowsTheFormulaWithVaryingBeta2) {
    AdamW optimizer({.beta1 = 0.9, .epsilon = 1e-8, .weight_decay = 0.1},
                    {{.offset = 0, .elements = 3, .decays = true}}, 3, *kernels_);
    std::vector<double> w(weights_.begin(), weights_.end());
    std::vector<double> m(3, 0.0);
    std::vector<double> v(3, 0.0);
    double power1 = 1;
    double power2 = 1;
    for (size_t step = 0; step < kGradients.size(); ++step) {
        const double beta2 = 0.95 - 0.05 * static_cast<double>(step);
        feed(optimizer, kGradients[step], {.rate = 0.01, .beta2 = beta2});
        power1 *= 0.9;
        power2 *= beta2;
        for (size_t i = 0; i < 3; ++i) {
            const auto g = static_cast<double>(kGradients[step][i]);
            m[i] += 0.1 * (g - m[i]);
            v[i] += (1 - beta2) * (g * g - v[i]);
            w[i] -= 0.01 * (m[i] / (1 - power1) / (std::sqrt(v[i] / (1 - power2)) + 1e-8) + 0.1 * w[i]);
        }
    }
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(static_cast<double>(weights_[i]), w[i], 1e-6);
        EXPECT_EQ(copy_[i].bits, Bf16(weights_[i]).bits);
    }
    EXPECT_EQ(optimizer.counters().updates, 3);
}

TEST_F(OptimizerTest, SgdWithMomentumAndNesterovFollowTheFormula) {
    for (const auto kind : {SgdSettings::Kind::plain, SgdSettings::Kind::nesterov}) {
        weights_ = {1.0F, -2.0F, 0.5F};
        Sgd optimizer({.momentum = 0.9, .kind = kind, .weight_decay = 0.1},
                      {{.offset = 0, .elements = 3, .decays = true}}, 3, *kernels_);
        std::vector<double> w(weights_.begin(), weights_.end());
        std::vector<double> b(3, 0.0);
        for (const auto& gradient : kGradients) {
            feed(optimizer, gradient, {.rate = 0.01});
            for (size_t i = 0; i < 3; ++i) {
                const double g = static_cast<double>(gradient[i]) + 0.1 * w[i];
                b[i] = 0.9 * b[i] + g;
                w[i] -= 0.01 * (kind == SgdSettings::Kind::nesterov ? g + 0.9 * b[i] : b[i]);
            }
        }
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_NEAR(static_cast<double>(weights_[i]), w[i], 1e-6);
        }
    }
}

// The update reads the moments before they are rounded, so that a first step is that of fp32 moments; later ones wander
// around it by the widths of codes.
TEST_F(OptimizerTest, MomentsInEightBitsFollowThoseInFp32) {
    const std::vector<OptimizedTensor> tensors = {{.offset = 0, .elements = 3, .decays = true}};
    for (const bool adam : {true, false}) {
        std::vector<std::vector<float>> after;
        for (const MomentFormat format : {MomentFormat::fp32, MomentFormat::eight_bits}) {
            weights_ = {1.0F, -2.0F, 0.5F};
            std::unique_ptr<Optimizer> optimizer;
            if (adam) {
                optimizer = std::make_unique<AdamW>(AdamW::Options{.moments = format}, tensors, 3, *kernels_);
            } else {
                optimizer =
                    std::make_unique<Sgd>(Sgd::Options{.momentum = 0.9, .moments = format}, tensors, 3, *kernels_);
            }
            for (const auto& gradient : kGradients) {
                feed(*optimizer, gradient, {.rate = 0.01, .beta2 = 0.95});
                after.push_back(weights_);
            }
        }
        EXPECT_EQ(after[0], after[3]);
        EXPECT_NE(after[2], after[5]);
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_NEAR(after[5][i], after[2][i], 0.002);  // of about 0.02
        }
    }
}

TEST_F(OptimizerTest, TheStateOfEightBitsIsCodesAndScalesOfEachTensor) {
    AdamW optimizer({.moments = MomentFormat::eight_bits},
                    {{.offset = 0, .elements = 300}, {.offset = 304, .elements = 128}, {.offset = 432, .elements = 1}},
                    448, *kernels_);
    const std::vector<StoredMoment> moments = optimizer.moments();
    ASSERT_EQ(moments.size(), 2U);
    EXPECT_EQ(moments[1].name, "second_moment");
    std::vector<size_t> bytes;
    for (const StoredMoment::Part& part : moments[0].parts) {
        EXPECT_EQ(part.suffix, part.dtype == "U8" ? "" : ".scales");
        bytes.push_back(part.device_bytes.size());
    }
    EXPECT_EQ(bytes, (std::vector<size_t>{300, 12, 128, 4, 1, 4}));
}

TEST_F(OptimizerTest, VectorsDoNotDecay) {
    Sgd optimizer({.momentum = 0, .weight_decay = 0.5}, {{.offset = 0, .elements = 3, .decays = false}}, 3, *kernels_);
    feed(optimizer, {0, 0, 0}, {.rate = 0.1});
    EXPECT_EQ(weights_, (std::vector<float>{1.0F, -2.0F, 0.5F}));
    EXPECT_TRUE(optimizer.moments().empty()) << "no momentum, no memory for it";
}

// Ranges of a model's moments, each kept by itself, with the device that several workers compute on.
class SharedMomentsTest : public ::testing::Test {
protected:
    static constexpr int64_t kElements = 80'064;
    // As the weights and their copy are after three updates with moments in so many ranges, each range by an optimizer that
    // keeps two of them.
    struct After {
        std::vector<float> weights = std::vector<float>(kElements, 0.5F);
        std::vector<Bf16> copy = std::vector<Bf16>(kElements);
    };

    template <class Kind>
    After updated(typename Kind::Options options, int64_t count) {
        const std::vector<FlatTensor> flat = {{0, 60'001}, {60'016, 20'040}};
        options.share = {.ranges = cut_into_ranges(flat, kElements, count), .places = count == 1 ? 1 : 2};
        Arena arena(int64_t{8} << 20);
        const auto kernels = make_kernels({.name = DeviceName(DeviceKind::cpu)}, pool_, arena);
        After after;
        std::vector<std::unique_ptr<Optimizer>> owners;
        for (int64_t range = 0; range < count; ++range) {
            owners.push_back(std::make_unique<Kind>(
                options,
                std::vector<OptimizedTensor>{{.offset = 0, .moment_offset = 0, .elements = 60'001, .decays = true},
                                             {.offset = 60'016, .moment_offset = 60'016, .elements = 20'040}},
                kElements, *kernels));
            owners.back()->kept().keep(count == 1 ? std::vector<int64_t>{0}
                                                  : std::vector<int64_t>{KeptMoments::kNone, range});
        }
        GradientSum sum({{.offset = 0, .rows = 1, .columns = 60'001}, {.offset = 60'016, .rows = 1, .columns = 20'040}},
                        kElements, SumKind::exact, *kernels);
        for (uint64_t step = 0; step < 3; ++step) {
            sum.open(1, Units::first(std::vector<float>{1.0F, 1.0F}));
            const GradientSink::Grain grain{.number = 0, .counted_tokens = 3};
            sum.begin(std::span(&grain, 1));
            sum.end();
            std::vector<int64_t> totals;
            for (int64_t i = 0; i < kElements; ++i) {
                totals.push_back(static_cast<int64_t>(mix(static_cast<uint64_t>(i), step)) >> 24);
            }
            sum.write_integers(0, totals);
            for (const auto& owner : owners) {
                owner->update(sum.mean(), {.rate = 0.01, .beta2 = 0.95},
                              {.master = View<float>(after.weights.data(), 1, kElements),
                               .copy = View<Bf16>(after.copy.data(), 1, kElements)});
            }
        }
        return after;
    }
    template <class Kind>
    void expect_the_same_bits(const typename Kind::Options& options) {
        const After whole = updated<Kind>(options, 1);
        EXPECT_NE(whole.weights.front(), 0.5F);
        for (const int64_t count : {2, 3, 5}) {
            const After parts = updated<Kind>(options, count);
            EXPECT_EQ(parts.weights, whole.weights) << count << " ranges";
            EXPECT_TRUE(std::ranges::equal(parts.copy, whole.copy, {}, &Bf16::bits, &Bf16::bits));
        }
    }

    Pool pool_{2};
};

TEST_F(SharedMomentsTest, RangesGiveTheBitsOfTheWholeUpdate) {
    for (const MomentFormat moments : {MomentFormat::fp32, MomentFormat::eight_bits}) {
        expect_the_same_bits<AdamW>({.weight_decay = 0.1, .moments = moments, .rounding_seed = 7});
        expect_the_same_bits<Sgd>({.momentum = 0.9, .weight_decay = 0.1, .moments = moments, .rounding_seed = 7});
    }
    expect_the_same_bits<Sgd>({.momentum = 0});
}

TEST_F(SharedMomentsTest, WhatIsNotKeptTakesNoMemory) {
    const std::vector<FlatTensor> flat = {{0, 80'000}};
    const std::vector<OptimizedTensor> tensors = {{.elements = 80'000}};
    EXPECT_EQ(KeptMoments(tensors, 80'000, {}).elements(), 80'000);
    const KeptMoments kept(tensors, 80'000, {.ranges = cut_into_ranges(flat, 80'000, 4), .places = 2});
    EXPECT_LE(kept.elements(), 40'000 + 2 * kRangeBlock);
    EXPECT_LE(kept.scales(), moment_blocks(kept.elements()));
}

}  // namespace
}  // namespace accrue
