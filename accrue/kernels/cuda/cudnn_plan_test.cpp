#include "accrue/kernels/cuda/cudnn_plan.h"

#include <gtest/gtest.h>

#include "accrue/kernels/cuda/plan.h"

namespace accrue::cuda {
namespace {

constexpr int kHopper = 90;

AttentionShape gpt2(int64_t longest = 1024) {
    return {.query_heads = 12, .key_heads = 12, .head_size = 64, .scale = 0.125F, .longest = longest};
}

AttentionShape llama(int64_t longest = 2048) {
    return {.query_heads = 32, .key_heads = 8, .head_size = 128, .scale = 0.09F, .longest = longest};
}

TEST(CudnnPlanTest, TheTableLooksAtTheRunAndTheGpu) {
    EXPECT_TRUE(is_for_cudnn(gpt2(), DType::bf16, kHopper));
    EXPECT_TRUE(is_for_cudnn(llama(), DType::fp16, kHopper));
    EXPECT_FALSE(is_for_cudnn(gpt2(), DType::fp32, kHopper));
    EXPECT_FALSE(is_for_cudnn(gpt2(), DType::bf16, 80));
    EXPECT_FALSE(is_for_cudnn(gpt2(), DType::bf16, 100));
    EXPECT_FALSE(is_for_cudnn(gpt2(0), DType::bf16, kHopper)) << "how long segments are is unknown";
    EXPECT_FALSE(is_for_cudnn(gpt2(1), DType::bf16, kHopper)) << "cuDNN has no such backward pass";

    AttentionShape shape = gpt2();
    shape.head_size = 80;
    EXPECT_FALSE(is_for_cudnn(shape, DType::bf16, kHopper));
    shape = gpt2();
    shape.mask = AttentionMask::full;
    EXPECT_FALSE(is_for_cudnn(shape, DType::bf16, kHopper));
    shape = gpt2();
    shape.dropout.probability = 0.1F;
    EXPECT_FALSE(is_for_cudnn(shape, DType::bf16, kHopper));
}

TEST(CudnnPlanTest, SegmentsWhoseScoresTakeTooMuchMemoryAreOurs) {
    EXPECT_TRUE(is_for_cudnn(gpt2(6656), DType::bf16, kHopper));
    EXPECT_FALSE(is_for_cudnn(gpt2(6784), DType::bf16, kHopper));
    EXPECT_TRUE(is_for_cudnn(llama(4096), DType::bf16, kHopper));
    EXPECT_FALSE(is_for_cudnn(llama(4097), DType::bf16, kHopper));
}

TEST(CudnnPlanTest, SegmentsOfTheLongestLengthAreKnownWithoutTheirList) {
    const auto are = [](const std::vector<Segment>& list, int64_t rows) {
        return are_all_longest(Segments::of(list, list.data()), gpt2(), rows);
    };
    EXPECT_TRUE(are({{0, 1024}}, 1024));
    EXPECT_TRUE(are({{0, 1024}, {1024, 1024}, {2048, 1024}}, 3072));
    EXPECT_FALSE(are({{0, 1024}, {1024, 1023}}, 2047));
    EXPECT_FALSE(are({{0, 1024}, {1024, 512}, {1536, 512}}, 2048));
    EXPECT_FALSE(are({{0, 512}, {512, 512}}, 1024)) << "alike, but shorter than others of the run";
    EXPECT_FALSE(are({{0, 1024}}, 1025)) << "a row that is in no segment";
}

TEST(CudnnPlanTest, CallsTakePowersOfTwo) {
    std::vector<int64_t> calls;
    for (int64_t left = 45; left > 0; left -= calls.back()) {
        calls.push_back(cudnn_segments_of_call(left, 16));
    }
    EXPECT_EQ(calls, (std::vector<int64_t>{16, 16, 8, 4, 1}));
}

TEST(CudnnPlanTest, BackwardTakesAsManySegmentsAsMemoryAllows) {
    EXPECT_EQ(cudnn_backward_segments(gpt2(), 64 * 1024), 64);
    EXPECT_EQ(cudnn_backward_segments(gpt2(), 8 * 1024), 8);
    EXPECT_EQ(cudnn_backward_segments(gpt2(), 100), 1);
    EXPECT_EQ(cudnn_backward_segments(llama(), 8 * 2048), 8);
    EXPECT_EQ(cudnn_backward_segments(llama(4096), 8 * 4096), 2);
}

// What cuDNN 9.19 asked for when it made these kernels for an H200: rows by strides, and by offsets.
TEST(CudnnPlanTest, TheFormulaIsABoundForWhatTheLibraryAsksFor) {
    struct Asked {
        AttentionShape shape;
        int64_t segments;
        int64_t bytes;
    };
    const AttentionShape small = {.query_heads = 4, .key_heads = 2, .head_size = 64, .longest = 32};
    const AttentionShape odd = {.query_heads = 6, .key_heads = 6, .head_size = 64, .longest = 17};
    for (const auto& [shape, segments, bytes] : std::initializer_list<Asked>{{gpt2(), 1, 25166080},
                                                                             {gpt2(), 4, 100665856},
                                                                             {gpt2(), 64, 1610612992},
                                                                             {gpt2(700), 1, 12976384},
                                                                             {gpt2(8192), 1, 1610612992},
                                                                             {llama(), 1, 301990144},
                                                                             {llama(), 4, 1207961344},
                                                                             {llama(700), 8, 368577280},
                                                                             {small, 2, 197888},
                                                                             {odd, 3, 296704}}) {
        const int64_t planned = cudnn_backward_workspace_bytes(shape, segments);
        EXPECT_GE(planned, bytes) << shape.longest;
        EXPECT_LE(planned, bytes + (int64_t{256} << 10)) << shape.longest;
    }
    EXPECT_GE(cudnn_forward_workspace_bytes(), 17152);
}

op::AttentionGrad gradient_of(const AttentionShape& shape, int64_t rows, int64_t segments) {
    op::AttentionGrad call;
    call.shape = shape;
    call.segments.list = {nullptr, 1, segments};
    call.query = AnyConstView(nullptr, DType::bf16, rows, shape.query_heads * shape.head_size);
    return call;
}

TEST(CudnnPlanTest, AnyCutOfTheSameRowsTakesTheSameMemory) {
    EXPECT_EQ(scratch_bytes(gradient_of(gpt2(), 8192, 8), kHopper),
              scratch_bytes(gradient_of(gpt2(), 8192, 1000), kHopper));
    int64_t before = 0;
    for (int64_t rows = 0; rows <= 40 * 1024; rows += 333) {
        const int64_t bytes = scratch_bytes(gradient_of(gpt2(), rows, 1), kHopper);
        EXPECT_GE(bytes, before) << rows << " rows: a shorter micro-batch must fit in the plan of the longest";
        before = bytes;
    }
}

TEST(CudnnPlanTest, OtherGpusTakeNoMemoryForIt) {
    EXPECT_LT(scratch_bytes(gradient_of(gpt2(), 8192, 8), 89), int64_t{1} << 20);
    EXPECT_GT(scratch_bytes(gradient_of(gpt2(), 8192, 8), kHopper), int64_t{8} * 12 * 1024 * 1024 * 2);
}

}  // namespace
}  // namespace accrue::cuda
