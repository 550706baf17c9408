// What an operation says of views that do not fit together, before any device sees them.
#include <gtest/gtest.h>

#include "accrue/kernels/device.h"
#include "accrue/kernels/one_by_one.h"

namespace accrue {
namespace {

class OperationsTest : public ::testing::Test {
protected:
    std::string error_of(const Operation& operation) {
        try {
            kernels_->run(operation);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }
    View<float> matrix(int64_t rows, int64_t columns) { return {memory_.data(), rows, columns}; }

    std::vector<float> memory_ = std::vector<float>(1000);
    Arena arena_{1};
    std::unique_ptr<Kernels> kernels_ = make_reference_kernels(arena_);
};

TEST_F(OperationsTest, WrongShapesAreNamedWithBothValues) {
    const WeightView weight{matrix(5, 4)};
    EXPECT_EQ(error_of(op::Linear{matrix(2, 3), weight, {}, matrix(2, 5)}),
              "linear was given 3 columns of input where the other views have 4");
    EXPECT_EQ(error_of(op::Linear{matrix(2, 4), weight, matrix(1, 6), matrix(2, 5)}),
              "linear was given 6 columns of bias where the other views have 5");
    EXPECT_EQ(error_of(op::Gelu{matrix(2, 4), matrix(3, 4)}),
              "gelu was given 3 rows of output where the other views have 2");
    EXPECT_EQ(error_of(op::Upload{std::as_bytes(std::span(memory_)).first(8), {}}),
              "upload was given 0 bytes of the device where the other views have 8");
}

TEST_F(OperationsTest, AWeightGradientNamesItsSum) {
    GrainRecord record;
    std::vector<int64_t> units(12);
    const SumView sum{.data = units.data(), .rows = 4, .columns = 3, .record = &record};
    const RowRange all{.first = 0, .rows = 2};
    const op::LinearSums sums{.first_output = 0, .outputs = 3, .weight = std::span(&sum, 1)};
    op::LinearBackward call{.d_output = matrix(2, 3),
                            .input = matrix(2, 4),
                            .weight = {matrix(3, 4)},
                            .d_input = {},
                            .grains = std::span(&all, 1),
                            .sums = std::span(&sums, 1)};
    EXPECT_EQ(error_of(call), "linear_backward was given 4 rows of d_weight where the other views have 3");
    const std::vector<int32_t> slots(3, -1);
    const HeldRows held{.slot_of_row = {slots.data(), 1, 3}, .values = matrix(1, 4)};
    call.weight = {matrix(4, 3), WeightLayout::in_out};
    call.held = std::span(&held, 1);
    EXPECT_EQ(error_of(call),
              "linear_backward was asked to hold rows of an in_out weight; only out_in weights have them");
}

TEST_F(OperationsTest, FactorsOfAProductShareOneType) {
    std::vector<Bf16> halves(100);
    const AnyView narrow = View<Bf16>(halves.data(), 2, 4);
    EXPECT_EQ(error_of(op::Linear{matrix(2, 4), {View<Bf16>(halves.data(), 5, 4)}, {}, matrix(2, 5)}),
              "linear was given fp32 and bf16, but the factors of a product share one dtype");
    EXPECT_EQ(error_of(op::Linear{narrow, {matrix(5, 4)}, {}, matrix(2, 5)}), "") << "fp32 weights go with either";
}

TEST_F(OperationsTest, TheCpuNamesAMaskThatItDoesNotKnow) {
    Pool pool(1);
    const auto cpu = make_cpu_kernels(pool, arena_);
    const Segments none = Segments::of({}, nullptr, AttentionMask::full);
    const AttentionShape shape{.query_heads = 1, .key_heads = 1, .head_size = 4, .mask = AttentionMask::full};
    try {
        cpu->run(op::Attention{shape, none, matrix(2, 4), matrix(2, 4), matrix(2, 4), matrix(2, 4), matrix(2, 1)});
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "the cpu device computes attention with a causal mask only");
    }
}

}  // namespace
}  // namespace accrue
