#include "accrue/kernels/timed/stopwatch.h"

#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/kernels/device.h"
#include "accrue/kernels/timed/ceilings.h"

namespace accrue {
namespace {

class StopwatchTest : public ::testing::Test {
protected:
    // A product with that many outputs, watched.
    std::vector<float> product(int64_t outputs, op::ProductOf of = op::ProductOf::block) {
        const std::vector<float> input = {1, 2};
        const std::vector<float> weight(static_cast<size_t>(outputs * 2), 3);
        std::vector<float> output(static_cast<size_t>(outputs));
        kernels_->run(op::Linear{View<const float>(input.data(), 1, 2),
                                 {View<const float>(weight.data(), outputs, 2), WeightLayout::out_in},
                                 {},
                                 View<float>(output.data(), 1, outputs),
                                 of});
        return output;
    }
    [[nodiscard]] double seconds_of(Part part) const { return watch_.seconds()[static_cast<size_t>(part)]; }

    Arena arena_ = Arena(1 << 20);
    std::unique_ptr<Kernels> kernels_ = make_reference_kernels(arena_);
    Stopwatch watch_{*kernels_};
};

TEST_F(StopwatchTest, AddsToThePartOfTheOperation) {
    EXPECT_EQ(product(3), (std::vector<float>{9, 9, 9}));
    EXPECT_GT(seconds_of(Part::products_forward), 0);
    EXPECT_EQ(std::accumulate(watch_.seconds().begin(), watch_.seconds().end(), 0.0),
              seconds_of(Part::products_forward));
    EXPECT_EQ(watch_.calls(), 1);
}

TEST_F(StopwatchTest, TheHeadsProductsBelongToTheLossHead) {
    (void)product(3, op::ProductOf::head);
    EXPECT_EQ(seconds_of(Part::products_forward), 0);
    EXPECT_GT(seconds_of(Part::loss_head), 0);
}

TEST_F(StopwatchTest, ABackwardPassIsSharedOutBetweenItsProducts) {
    constexpr int64_t kSize = 64;
    Pool pool(2);
    const auto cpu_kernels = make_cpu_kernels(pool, arena_);
    Stopwatch watch(*cpu_kernels);
    const std::vector<float> values(kSize * kSize, 1);
    std::vector<float> d_input(kSize * kSize);
    std::vector<int64_t> sums(kSize * kSize);
    GrainRecord record;
    const View<const float> matrix(values.data(), kSize, kSize);
    const SumView sum{.data = sums.data(), .rows = kSize, .columns = kSize, .record = &record};
    const RowRange all{.first = 0, .rows = kSize};
    const op::LinearSums weight{.first_output = 0, .outputs = kSize, .weight = std::span(&sum, 1)};
    cpu_kernels->run(op::LinearBackward{.d_output = matrix,
                                        .input = matrix,
                                        .weight = {matrix, WeightLayout::out_in},
                                        .d_input = View<float>(d_input.data(), kSize, kSize),
                                        .grains = std::span(&all, 1),
                                        .sums = std::span(&weight, 1)});
    EXPECT_EQ(sums, std::vector<int64_t>(sums.size(), kSize));
    EXPECT_GT(watch.seconds()[static_cast<size_t>(Part::products_weight)], 0);
    EXPECT_GT(watch.seconds()[static_cast<size_t>(Part::products_input)], 0);
    EXPECT_EQ(watch.seconds()[static_cast<size_t>(Part::products_forward)], 0);
    EXPECT_EQ(watch.calls(), 3) << "biases, weights, and what runs together";
}

// Weights are filled by all threads, each with transfers of its own.
TEST_F(StopwatchTest, TransfersOfManyThreadsAreNotWatched) {
    Pool pool(4);
    std::vector<float> device(4096);
    const std::vector<float> host(device.size() / 256, 2);
    pool.run(256, [&](int64_t item, int) {
        upload(*kernels_, std::span<const float>(host), device.data() + item * std::ssize(host));
    });
    EXPECT_EQ(device, std::vector<float>(device.size(), 2));
    EXPECT_EQ(watch_.calls(), 0);
}

TEST_F(StopwatchTest, StopsWatchingWhenItEnds) {
    { const Stopwatch another(*kernels_); }
    (void)product(3);
    EXPECT_EQ(watch_.calls(), 0);
}

TEST_F(StopwatchTest, ResetForgets) {
    (void)product(3);
    watch_.reset();
    EXPECT_EQ(seconds_of(Part::products_forward), 0);
    EXPECT_EQ(watch_.calls(), 0);
}

TEST_F(StopwatchTest, EveryPartHasItsOwnName) {
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
