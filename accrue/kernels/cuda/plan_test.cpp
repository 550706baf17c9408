// What a plan for a GPU counts, where there is neither a GPU nor a toolkit.
#include "accrue/kernels/cuda/plan.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/kernels/cuda/column_sums_plan.h"
#include "accrue/kernels/cuda/linear_plan.h"

namespace accrue::cuda {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Extents alone count: the addresses of views are never followed.
template <class T>
View<T> view(int64_t rows, int64_t columns) {
    return {reinterpret_cast<T*>(uintptr_t{256}), rows, columns};
}
AnyView any(DType dtype, int64_t rows, int64_t columns) {
    return {reinterpret_cast<void*>(uintptr_t{256}), dtype, rows, columns};
}

// The backward pass of a weight [out, in] over some grains of so many rows, with a sum for each of them.
struct Backward {
    std::vector<RowRange> grains;
    std::vector<SumView> weight;
    std::vector<op::LinearSums> sums;
    op::LinearBackward call;

    Backward(int64_t out, int64_t in, int64_t count, int64_t rows) {
        for (int64_t grain = 0; grain < count; ++grain) {
            grains.push_back({.first = grain * rows, .rows = rows});
            weight.push_back({.rows = out, .columns = in, .record = reinterpret_cast<GrainRecord*>(uintptr_t{256})});
        }
        sums.push_back({.first_output = 0, .outputs = out, .weight = weight});
        call = {.d_output = any(DType::bf16, count * rows, out),
                .input = any(DType::bf16, count * rows, in),
                .weight = {.matrix = any(DType::bf16, out, in)},
                .d_input = any(DType::bf16, count * rows, in),
                .grains = grains,
                .sums = sums};
    }
    Backward(const Backward&) = delete;
    Backward& operator=(const Backward&) = delete;
};

TEST(CudaPlanTest, AProductTakesMemoryOnlyForWhatItMustRound) {
    op::Linear call{.input = any(DType::bf16, 100, 64),
                    .weight = {.matrix = any(DType::bf16, 48, 64)},
                    .bias = {},
                    .output = any(DType::bf16, 100, 48)};
    EXPECT_EQ(scratch_bytes(call), 0);
    call.weight.matrix = any(DType::fp32, 48, 64);
    EXPECT_EQ(scratch_bytes(call), 48 * 64 * 2) << "a copy of the weight in two bytes an element";
    call.bias = view<const float>(1, 48);
    EXPECT_EQ(scratch_bytes(call), 48 * 64 * 2 + 256) << "a bias of up to four bytes an element, in whole pieces";
    call.input = any(DType::fp32, 100, 64);
    EXPECT_EQ(scratch_bytes(call), 256) << "fp32 is taken as it is";
}

// All elements of a large sum of outputs belong to one slice, or to the rest behind them.
TEST(CudaPlanTest, SlicesOfAVocabularyCoverIt) {
    for (const int64_t outputs : {1, 768, 8191, 8192, 32000, 50257, 50304, 128256, 151936, 262144}) {
        const InputSlices slices = input_slices(outputs);
        EXPECT_EQ(slices.count * slices.depth + slices.rest, outputs) << outputs;
        EXPECT_EQ(slices.count == 1, outputs < kDeep) << outputs;
        EXPECT_TRUE(slices.count == 1 || slices.depth % 16 == 0) << "aligned as the library wants it: " << outputs;
        EXPECT_LT(slices.rest, slices.count * 16) << outputs;
    }
}

// Whatever the vocabulary, the micro-batch and the number of grains.
TEST(CudaPlanTest, GradientsOfAHeadTakeABoundedPieceAtATime) {
    for (const int64_t grains : {1, 8, 64}) {
        const Backward head(50257, 768, grains, 1024);
        const int64_t gradient = int64_t{50257} * 768 * 4;
        EXPECT_LE(scratch_bytes(head.call), gradient + gradient / 4096 + kMiB) << grains;
    }
    const Backward small(768, 768, 64, 1024);
    EXPECT_LE(scratch_bytes(small.call), kMostProductBytes + kMiB);
    EXPECT_GT(scratch_bytes(small.call), kMostProductBytes / 2) << "as many grains at once as there is room for";
}

TEST(CudaPlanTest, GradientsThatWaitElsewhereTakeNothing) {
    Backward waiting(768, 768, 4, 1024);
    EXPECT_GT(scratch_bytes(waiting.call), 4 * 768 * 768 * 4);
    for (SumView& sum : waiting.weight) {
        sum.waiting = reinterpret_cast<float*>(uintptr_t{4096});
    }
    EXPECT_EQ(scratch_bytes(waiting.call), 0);
}

// Nothing that grows with the square of a sequence.
TEST(CudaPlanTest, AttentionTakesMemoryInProportionToItsRows) {
    const auto backward = [](int64_t rows) {
        op::AttentionGrad call;
        call.shape = {.query_heads = 12, .key_heads = 12, .head_size = 64};
        for (AnyConstView* matrix : {&call.query, &call.key, &call.value, &call.output, &call.d_output}) {
            *matrix = any(DType::bf16, rows, 768);
        }
        call.log_sum = view<const float>(rows, 12);
        for (AnyView* matrix : {&call.d_query, &call.d_key, &call.d_value}) {
            *matrix = any(DType::bf16, rows, 768);
        }
        return scratch_bytes(call);
    };
    EXPECT_EQ(scratch_bytes(op::Attention{}), 0);
    EXPECT_EQ(backward(65536), 64 * backward(1024));
    EXPECT_LE(backward(1024), 1024 * 12 * 4);
}

// The sum over a grain's rows has its order from the grain alone.
TEST(CudaPlanTest, EveryRowOfAGrainIsInOnePartialSum) {
    for (const int64_t rows : {0, 1, 3, 4, 5, 511, 512, 513, 4095, 4096, 4097, 100000}) {
        EXPECT_GE(partial_sums_of(rows) * rows_of_partial_sum(rows), rows);
        EXPECT_LT((partial_sums_of(rows) - 1) * rows_of_partial_sum(rows), std::max<int64_t>(rows, 1));
    }
    const std::array<RowRange, 2> grains{RowRange{.first = 0, .rows = 1024}, {.first = 1024, .rows = 1000}};
    const std::array<RowRange, 1> first{grains[0]};
    EXPECT_GT(add_column_sums_bytes(768, grains), add_column_sums_bytes(768, first));
    EXPECT_LE(add_column_sums_bytes(768, grains), 2 * add_column_sums_bytes(768, first));
}

TEST(CudaPlanTest, AddsAreCutIntoTiles) {
    EXPECT_EQ(add_tiles(0), 0);
    EXPECT_EQ(add_tiles(1), 1);
    EXPECT_EQ(add_tiles(kAddTile), 1);
    EXPECT_EQ(add_tiles(kAddTile + 1), 2);
    op::AddGradient call{.values = view<const float>(100, 1000), .sum = {.rows = 100, .columns = 1000}};
    EXPECT_EQ(scratch_bytes(call), (25 * static_cast<int64_t>(sizeof(TileStatistics)) + 255) / 256 * 256);
}

}  // namespace
}  // namespace accrue::cuda
