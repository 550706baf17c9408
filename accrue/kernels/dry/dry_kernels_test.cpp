#include "accrue/kernels/dry/dry_kernels.h"

#include <array>

#include <gtest/gtest.h>

#include "accrue/kernels/conformance.h"
#include "accrue/kernels/one_by_one.h"

namespace accrue {
namespace {

constexpr int kThreads = 3;

// The whole conformance table, each case with its own arena: whatever dry forgets, adds or rounds differently shows.
TEST(DryKernelsTest, TakesTheBytesThatTheCpuTakes) {
    Pool pool(kThreads);
    bool some_take_memory = false;
    for (const conformance::Operation& operation : conformance::all_operations()) {
        for (const conformance::Case& tried : cases_of(operation, DeviceKind::cpu)) {
            Arena real(int64_t{64} << 20);
            Arena dry = Arena::dry();
            operation.run(*make_cpu_kernels(pool, real), tried);
            operation.run(*make_dry_kernels(dry, {}, kThreads), tried);
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
    std::unique_ptr<DryKernels> kernels_ = make_dry_kernels(arena_, {}, kThreads);
    std::vector<Leased<float>> kept_;
    GrainRecord record_;
};

// Every operation of the table on views that fault when they are touched: none is left out, because the table has them all.
TEST_F(UntouchableTest, NoViewIsReadOrWritten) {
    const View<float> matrix = floats(8, 6);
    const View<float> wide = floats(8, 12);
    const View<float> row = floats(1, 6);
    const View<float> column = floats(8, 1);
    const std::array<Segment, 1> list{Segment{0, 8}};
    const Segments segments = Segments::of(list, reinterpret_cast<const Segment*>(matrix.data));
    const AttentionShape shape{.query_heads = 1, .key_heads = 1, .head_size = 6, .scale = 1};
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(matrix.data), 48);
    const std::vector<std::byte> host(48);
    const WeightView weight{floats(6, 6)};
    const MeanView mean{.data = row.data, .elements = 6};
    const RowRange all{.first = 0, .rows = 8};
    const auto grains = std::span(&all, 1);
    const SumView square = sum(6, 6);
    const SumView vector = sum(1, 6);
    const op::LinearSums sums{
        .first_output = 0, .outputs = 6, .weight = std::span(&square, 1), .bias = std::span(&vector, 1)};
    const auto vectors = std::span(&vector, 1);
    const op::LookupGrain lookup{.rows = all,
                                 .index = {.entries = indices(2), .first_place = indices(3), .places = indices(8)},
                                 .held = {},
                                 .d_table = square};
    const std::vector<Operation> operations{
        op::Linear{matrix, weight, row, matrix},
        op::LinearResidual{matrix, weight, row, {}, matrix, matrix},
        op::LinearActivation{matrix, weight, row, op::Activation::gelu, matrix, matrix},
        op::LinearBackward{matrix, matrix, weight, matrix, grains, std::span(&sums, 1)},
        op::RmsNorm{matrix, row, 0, matrix, column},
        op::LayerNorm{matrix, row, row, 0, matrix, column, column},
        op::RmsNormBackward{matrix, matrix, row, column, matrix, {}, grains, vectors},
        op::LayerNormBackward{matrix, matrix, row, column, column, matrix, grains, vectors, vectors},
        op::Rope{matrix, indices(8), matrix},
        op::RopeGrad{matrix, indices(8), matrix},
        op::Attention{shape, segments, matrix, matrix, matrix, matrix, column},
        op::AttentionGrad{shape, segments, matrix, matrix, matrix, matrix, column, matrix, matrix, matrix, matrix},
        op::Gelu{matrix, matrix},
        op::GeluGrad{matrix, matrix, matrix},
        op::Swiglu{wide, matrix},
        op::SwigluGrad{matrix, wide, wide},
        op::Embed{indices(8), matrix, indices(8), matrix, {}, matrix},
        op::AddLookupGrad{matrix, std::span(&lookup, 1)},
        op::CrossEntropy{matrix, indices(8), floats(1, 8), matrix},
        op::GrainLosses{floats(1, 8), grains, {reinterpret_cast<double*>(matrix.data), 1, 1}},
        op::SquaredNorm{std::span(&mean, 1), {reinterpret_cast<double*>(matrix.data), 1, 1}},
        op::UpdateAdamW{mean, {}, row, row, row, row},
        op::UpdateSgd{mean, {}, row, row, row},
        op::UpdateAdamW8Bit{mean, {}, row, {}, row},
        op::UpdateSgd8Bit{mean, {}, row, {}, row},
        op::Cast{matrix, {}, matrix},
        op::FillZero{bytes},
        op::Upload{host, bytes},
        op::Download{bytes, bytes},
        op::AddGradient{floats(6, 6), square},
        op::AddSums{{reinterpret_cast<const int64_t*>(matrix.data), 1, 2},
                    {reinterpret_cast<int64_t*>(matrix.data), 1, 2}},
        op::CompleteSums{}};
    ASSERT_EQ(operations.size(), std::variant_size_v<Operation>);
    for (size_t i = 0; i < operations.size(); ++i) {
        EXPECT_EQ(operations[i].index(), i) << "an operation is missing here";
        kernels_->run(operations[i]);
    }
    EXPECT_EQ(record_, GrainRecord{});
}

TEST_F(UntouchableTest, CountsTwoOperationsForEachMultiplicationOfAProduct) {
    const WeightView weight{floats(7, 5)};
    kernels_->run(op::Linear{floats(3, 5), weight, {}, floats(3, 7)});
    EXPECT_EQ(kernels_->work().flops(), 2 * 3 * 5 * 7);
    one_by_one::linear_input_grad(*kernels_, floats(3, 7), weight, floats(3, 5));
    one_by_one::add_linear_weight_grad(*kernels_, floats(3, 7), floats(3, 5), WeightLayout::out_in, sum(7, 5));
    EXPECT_EQ(kernels_->work().flops(), 3 * 2 * 3 * 5 * 7);
}

TEST_F(UntouchableTest, TheHeadsProductsAreCountedApart) {
    kernels_->run(op::Linear{floats(3, 5), {floats(7, 5)}, {}, floats(3, 7), op::ProductOf::head});
    EXPECT_EQ(kernels_->work()[static_cast<size_t>(Part::products_forward)].flops, 0);
    EXPECT_EQ(kernels_->work()[static_cast<size_t>(Part::loss_head)].flops, 2 * 3 * 5 * 7);
}

TEST_F(UntouchableTest, CountsThePairsThatAttentionSees) {
    const std::array<Segment, 2> list{Segment{0, 4}, Segment{4, 1}};  // 10 pairs and 1
    const Segments segments = Segments::of(list, nullptr);
    const AttentionShape shape{.query_heads = 2, .key_heads = 1, .head_size = 8, .scale = 1};
    const View<float> query = floats(5, 16);
    const View<float> key = floats(5, 8);
    const View<float> log_sum = floats(5, 2);
    kernels_->run(op::Attention{shape, segments, query, key, key, query, log_sum});
    EXPECT_EQ(kernels_->work().flops(), 2 * 2 * 11 * 2 * 8);
    kernels_->run(op::AttentionGrad{shape, segments, query, key, key, query, log_sum, query, query, key, key});
    EXPECT_EQ(kernels_->work().flops(), (2 + 5) * 2 * 11 * 2 * 8);
    EXPECT_EQ(Segments::of(list, nullptr, AttentionMask::full).pairs, 4 * 4 + 1);
}

}  // namespace
}  // namespace accrue
