#include "accrue/kernels/dry/dry_kernels.h"

#include <array>

#include <gtest/gtest.h>

#include "accrue/kernels/conformance.h"

namespace accrue {
namespace {

constexpr int kThreads = 3;

// The whole conformance table, each case with its own arena: whatever dry forgets, adds or rounds differently shows.
TEST(DryKernelsTest, TakesTheBytesThatTheCpuTakes) {
    Pool pool(kThreads);
    bool some_take_memory = false;
    for (const conformance::Operation& operation : conformance::all_operations()) {
        for (const conformance::Case& tried : operation.cases) {
            Arena real(int64_t{64} << 20);
            Arena dry = Arena::dry();
            operation.run(*make_cpu_kernels(pool, real), tried);
            operation.run(*make_dry_kernels(dry, kThreads), tried);
            ASSERT_EQ(dry.high_water_bytes(), real.high_water_bytes()) << operation.name << ", " << text_of(tried);
            EXPECT_EQ(dry.bytes_in_use(), 0);
            some_take_memory |= dry.high_water_bytes() > 0;
        }
    }
    EXPECT_TRUE(some_take_memory);
}

// Lives in a dry arena, whose addresses fault when they are read or written.
class UntouchableTest : public testing::Test {
protected:
    View<float> floats(int64_t rows, int64_t columns) {
        return kept_.emplace_back(take_matrix<float>(arena_, rows, columns)).view;
    }
    View<const int32_t> indices(int64_t count) {
        return {reinterpret_cast<const int32_t*>(floats(1, count).data), 1, count};
    }
    SumView sum(int64_t rows, int64_t columns) {
        return {.data = floats(2 * rows, columns).data, .rows = rows, .columns = columns, .record = &record_};
    }

    Arena arena_ = Arena::dry();
    std::unique_ptr<DryKernels> kernels_ = make_dry_kernels(arena_, kThreads);
    std::vector<Leased<float>> kept_;
    GrainRecord record_;
};

TEST_F(UntouchableTest, NoViewIsReadOrWritten) {
    const View<float> matrix = floats(8, 6);
    const View<float> row = floats(1, 8);
    const View<float> column = floats(8, 1);
    const std::array<Segment, 1> segments{Segment{0, 8}};
    const AttentionShape shape{.query_heads = 1, .key_heads = 1, .head_size = 6, .scale = 1, .dropout = {}};
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(matrix.data), 4);
    const WeightView weight{floats(6, 6)};
    const MeanView mean{.data = matrix.data, .elements = 48};
    kernels_->linear(matrix, weight, row, matrix);
    kernels_->linear_residual(matrix, weight, row, {}, matrix, matrix);
    kernels_->linear_input_grad(matrix, weight, matrix);
    kernels_->add_linear_weight_grad(matrix, matrix, WeightLayout::out_in, sum(6, 6), {});
    kernels_->start_linear_weight_grad(matrix, matrix, WeightLayout::out_in, sum(6, 6), {});
    kernels_->add_bias_grad(matrix, sum(1, 6));
    kernels_->rms_norm(matrix, row, 0, matrix, column);
    kernels_->rms_norm_input_grad(matrix, matrix, row, column, matrix);
    kernels_->add_rms_norm_input_grad(matrix, matrix, row, column, matrix);
    kernels_->add_rms_norm_gain_grad(matrix, matrix, column, sum(1, 6));
    kernels_->layer_norm(matrix, row, row, 0, matrix, column, column);
    kernels_->add_layer_norm_input_grad(matrix, matrix, row, column, column, matrix);
    kernels_->add_layer_norm_gain_grad(matrix, matrix, column, column, sum(1, 6));
    kernels_->rope(matrix, indices(8), matrix);
    kernels_->rope_grad(matrix, indices(8), matrix);
    kernels_->attention(shape, segments, matrix, matrix, matrix, matrix, column);
    kernels_->attention_grad(shape, segments, matrix, matrix, matrix, matrix, column, matrix, matrix, matrix, matrix);
    kernels_->gelu(matrix, matrix);
    kernels_->gelu_grad(matrix, matrix, matrix);
    kernels_->swiglu(matrix, matrix);
    kernels_->swiglu_grad(matrix, matrix, matrix);
    kernels_->embed(indices(8), matrix, indices(8), matrix, {}, matrix);
    kernels_->add_lookup_grad(matrix, {.entries = {indices(2).data, 2}, .first_place = {}, .places = {}}, {},
                              sum(6, 6));
    kernels_->cross_entropy(matrix, indices(8), row, matrix);
    EXPECT_EQ(kernels_->squared_norm(mean), 0);
    kernels_->adamw(mean, {}, matrix, matrix, matrix, matrix);
    kernels_->sgd(mean, {}, matrix, matrix, matrix);
    kernels_->cast(matrix, {}, matrix);
    kernels_->fill_zero(bytes);
    kernels_->copy_in(bytes, bytes);
    kernels_->copy_out(matrix, {matrix.data, 48});
    EXPECT_EQ(record_, GrainRecord{});
}

TEST_F(UntouchableTest, CountsTwoOperationsForEachMultiplicationOfAProduct) {
    const WeightView weight{floats(7, 5)};
    kernels_->linear(floats(3, 5), weight, {}, floats(3, 7));
    EXPECT_EQ(kernels_->floating_point_operations(), 2 * 3 * 5 * 7);
    kernels_->linear_input_grad(floats(3, 7), weight, floats(3, 5));
    kernels_->add_linear_weight_grad(floats(3, 7), floats(3, 5), WeightLayout::out_in, sum(7, 5), {});
    EXPECT_EQ(kernels_->floating_point_operations(), 3 * 2 * 3 * 5 * 7);
}

TEST_F(UntouchableTest, CountsThePairsThatAttentionSees) {
    const std::array<Segment, 2> segments{Segment{0, 4}, Segment{4, 1}};  // 10 pairs and 1
    const AttentionShape shape{.query_heads = 2, .key_heads = 1, .head_size = 8, .scale = 1, .dropout = {}};
    const View<float> query = floats(5, 16);
    const View<float> key = floats(5, 8);
    const View<float> log_sum = floats(5, 2);
    kernels_->attention(shape, segments, query, key, key, query, log_sum);
    EXPECT_EQ(kernels_->floating_point_operations(), 2 * 2 * 11 * 2 * 8);
    kernels_->attention_grad(shape, segments, query, key, key, query, log_sum, query, query, key, key);
    EXPECT_EQ(kernels_->floating_point_operations(), (2 + 5) * 2 * 11 * 2 * 8);
}

}  // namespace
}  // namespace accrue
