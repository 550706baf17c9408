#include "accrue/kernels/timed/timed_kernels.h"

#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/kernels/timed/ceilings.h"

namespace accrue {
namespace {

constexpr int64_t kVocabulary = 5;

class TimedKernelsTest : public ::testing::Test {
protected:
    // A product with that many outputs, through the timed kernels.
    std::vector<float> product(int64_t outputs) {
        const std::vector<float> input = {1, 2};
        const std::vector<float> weight(static_cast<size_t>(outputs * 2), 3);
        std::vector<float> output(static_cast<size_t>(outputs));
        kernels_.linear(View<const float>(input.data(), 1, 2),
                        {View<const float>(weight.data(), outputs, 2), WeightLayout::out_in}, {},
                        View<float>(output.data(), 1, outputs));
        return output;
    }
    [[nodiscard]] double seconds_of(Part part) const { return kernels_.seconds()[static_cast<size_t>(part)]; }

    Arena arena_ = Arena(1 << 20);
    std::unique_ptr<Kernels> reference_ = make_reference_kernels(arena_);
    TimedKernels kernels_{*reference_, kVocabulary};
};

TEST_F(TimedKernelsTest, HandsOnAndAddsToThePartOfTheCall) {
    EXPECT_EQ(product(3), (std::vector<float>{9, 9, 9}));
    EXPECT_GT(seconds_of(Part::products_forward), 0);
    EXPECT_EQ(std::accumulate(kernels_.seconds().begin(), kernels_.seconds().end(), 0.0),
              seconds_of(Part::products_forward));
    EXPECT_EQ(kernels_.calls(), 1);
    EXPECT_EQ(kernels_.description(), reference_->description());
    EXPECT_EQ(&kernels_.arena(), &arena_);
}

TEST_F(TimedKernelsTest, AProductWithTheVocabularyBelongsToTheLossHead) {
    (void)product(kVocabulary);
    EXPECT_EQ(seconds_of(Part::products_forward), 0);
    EXPECT_GT(seconds_of(Part::loss_head), 0);
}

TEST_F(TimedKernelsTest, AWeightGradientThatWasStartedCountsAsOneWhenItIsComputed) {
    constexpr int64_t kSize = 64;
    Pool pool(2);
    const auto cpu_kernels = make_cpu_kernels(pool, arena_);
    TimedKernels timed(*cpu_kernels, kVocabulary);
    const std::vector<float> values(kSize * kSize, 1);
    std::vector<float> d_input(kSize * kSize);
    std::vector<int64_t> sums(kSize * kSize);
    GrainRecord record;
    const View<const float> matrix(values.data(), kSize, kSize);
    timed.start_linear_weight_grad(matrix, matrix, WeightLayout::out_in,
                                   {.data = sums.data(), .rows = kSize, .columns = kSize, .record = &record}, {});
    const auto weight_seconds = [&] { return timed.seconds()[static_cast<size_t>(Part::products_weight)]; };
    const double to_start = weight_seconds();
    timed.linear_input_grad(matrix, {matrix, WeightLayout::out_in}, View<float>(d_input.data(), kSize, kSize));
    EXPECT_EQ(sums, std::vector<int64_t>(sums.size(), kSize));
    EXPECT_GT(timed.started_share(), 0);
    EXPECT_LT(timed.started_share(), 1);
    EXPECT_GT(weight_seconds(), to_start);
    EXPECT_GT(timed.seconds()[static_cast<size_t>(Part::products_input)], 0);
}

TEST_F(TimedKernelsTest, ResetForgets) {
    (void)product(3);
    kernels_.reset();
    EXPECT_EQ(seconds_of(Part::products_forward), 0);
    EXPECT_EQ(kernels_.calls(), 0);
}

TEST_F(TimedKernelsTest, EveryPartHasItsOwnName) {
    std::set<std::string_view> names;
    for (int64_t part = 0; part < kParts; ++part) {
        names.insert(name_of(static_cast<Part>(part)));
    }
    EXPECT_EQ(names.size(), kParts);
    EXPECT_FALSE(names.contains(""));
}

TEST(CeilingsTest, EveryInstructionSetHasARate) {
    Pool pool(2);
    using cpu::InstructionSet;
    for (const auto set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512,
                           InstructionSet::avx512_bf16, InstructionSet::amx}) {
        if (set <= cpu::best_instruction_set()) {
            EXPECT_GT(multiply_add_rate(pool, DType::fp32, set), 0) << name_of(set);
            EXPECT_GT(multiply_add_rate(pool, DType::bf16, set), 0) << name_of(set);
        }
    }
}

}  // namespace
}  // namespace accrue
