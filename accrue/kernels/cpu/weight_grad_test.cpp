#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "accrue/kernels/cpu/linear.h"
#include "accrue/kernels/cpu/product.h"
#include "accrue/kernels/cpu/product_testing.h"

namespace accrue::cpu {
namespace {

class WeightGradTest : public InstructionSetsTest {};

INSTANTIATE_TEST_SUITE_P(Sets, WeightGradTest, every_set(), test_name);

// A window's sum of one tensor with its record.
struct Sums {
    std::vector<int64_t> units;
    std::vector<float> floats;
    GrainRecord record;

    explicit Sums(int64_t elements)
        : units(static_cast<size_t>(elements), 5), floats(static_cast<size_t>(elements), 5) {}
    SumView view(SumKind kind, int64_t rows, int64_t columns) {
        SumView result{.kind = kind, .rows = rows, .columns = columns, .per_unit = 0x1p20, .record = &record};
        result.data = kind == SumKind::exact ? static_cast<void*>(units.data()) : static_cast<void*>(floats.data());
        return result;
    }
};

constexpr Extents kGradExtents[] = {{1, 1, 1}, {17, 65, 63}, {64, 200, 130}, {2100, 9, 50}, {5, 1, 300}};

// The gradient of a weight [out, in], stored by the same kernel: what the additions must round.
Matrix weight_grad_of(const Context& context, Matrix& d_output, Matrix& input) {
    Matrix result(DType::fp32, d_output.columns, input.columns);
    const AnyView left = d_output.view();
    const AnyView right = input.view();
    const Product product{
        .left = {.data = left.data, .dtype = left.dtype, .stride = left.stride, .contiguous = Contiguous::lanes},
        .right = {.data = right.data, .dtype = right.dtype, .stride = right.stride, .contiguous = Contiguous::lanes},
        .shape = {.rows = left.columns, .columns = right.columns, .depth = left.rows}};
    multiply(context, product, StoredResult{.output = result.view(), .bias = {}, .dropout = {}, .residual = {}});
    return result;
}

TEST_P(WeightGradTest, WeightGradIsThePlainLoopForAnyShape) {
    for (const DType dtype : kBoth) {
        for (const auto& [rows, in, out] : kGradExtents) {
            Matrix d_output = random_matrix(dtype, rows, out, 1);
            Matrix input = random_matrix(dtype, rows, in, 2);
            const Matrix gradient = weight_grad_of(context(), d_output, input);
            for (int64_t o = 0; o < out; ++o) {
                for (int64_t i = 0; i < in; ++i) {
                    Checked sum;
                    for (int64_t r = 0; r < rows; ++r) {
                        sum.add(d_output.at(r, o), input.at(r, i));
                    }
                    sum.expect_near(gradient.at(o, i), rows, DType::fp32);
                }
            }
        }
    }
}

TEST_P(WeightGradTest, AddingAWeightGradRoundsItOnceToTheUnit) {
    for (const DType dtype : kBoth) {
        for (const WeightLayout layout : kLayouts) {
            for (const auto& [rows, in, out] : kGradExtents) {
                const bool out_in = layout == WeightLayout::out_in;
                Matrix d_output = random_matrix(dtype, rows, out, 1);
                Matrix input = random_matrix(dtype, rows, in, 2);
                const Matrix gradient = weight_grad_of(context(), d_output, input);
                Sums exact(out * in);
                Sums plain(out * in);
                const auto shape = out_in ? std::pair{out, in} : std::pair{in, out};
                add_linear_weight_grad(context(), d_output.view(), input.view(), layout,
                                       exact.view(SumKind::exact, shape.first, shape.second), {});
                add_linear_weight_grad(context(), d_output.view(), input.view(), layout,
                                       plain.view(SumKind::fp32, shape.first, shape.second), {});
                GrainRecord wanted;
                for (int64_t o = 0; o < out; ++o) {
                    for (int64_t i = 0; i < in; ++i) {
                        const float value = gradient.at(o, i);
                        const auto place = static_cast<size_t>(out_in ? o * in + i : i * out + o);
                        ASSERT_EQ(exact.units[place], 5 + static_cast<int64_t>(std::nearbyint(value * 0x1p20)));
                        ASSERT_EQ(plain.floats[place], 5 + value);
                        wanted.squares += static_cast<double>(value) * value;
                        wanted.largest = std::max(wanted.largest, std::abs(value));
                    }
                }
                EXPECT_NEAR(exact.record.squares, wanted.squares, 1e-12 * wanted.squares);
                EXPECT_EQ(exact.record.largest, wanted.largest);
                EXPECT_FALSE(exact.record.not_finite);
                EXPECT_EQ(exact.record, plain.record);
            }
        }
    }
}

// With either side of the weight the longer one.
TEST_P(WeightGradTest, ThreadsDoNotChangeARecord) {
    for (const auto& [out, in] : {std::pair{300, 500}, {500, 300}}) {
        Matrix d_output = random_matrix(DType::bf16, 33, out, 1);
        Matrix input = random_matrix(DType::bf16, 33, in, 2);
        const int64_t elements = int64_t{out} * in;
        Sums one(elements);
        add_linear_weight_grad(context(1), d_output.view(), input.view(), WeightLayout::out_in,
                               one.view(SumKind::exact, out, in), {});
        for (const int threads : {2, 3}) {
            Sums many(elements);
            add_linear_weight_grad(context(threads), d_output.view(), input.view(), WeightLayout::out_in,
                                   many.view(SumKind::exact, out, in), {});
            EXPECT_EQ(many.record, one.record);
            EXPECT_EQ(many.units, one.units);
        }
    }
}

TEST_P(WeightGradTest, AProbeRecordsAndAddsNothing) {
    Matrix d_output = random_matrix(DType::fp32, 9, 30, 1);
    Matrix input = random_matrix(DType::fp32, 9, 40, 2);
    Sums added(30 * 40);
    add_linear_weight_grad(context(), d_output.view(), input.view(), WeightLayout::out_in,
                           added.view(SumKind::exact, 30, 40), {});
    Sums probed(30 * 40);
    SumView probe = probed.view(SumKind::exact, 30, 40);
    probe.data = nullptr;
    add_linear_weight_grad(context(), d_output.view(), input.view(), WeightLayout::out_in, probe, {});
    EXPECT_EQ(probed.record, added.record);
}

TEST_P(WeightGradTest, AHeldRowIsWrittenAsideAndNotRecorded) {
    for (const int64_t in : {70, 11}) {
        Matrix d_output = random_matrix(DType::fp32, 9, 20, 1);
        Matrix input = random_matrix(DType::fp32, 9, in, 2);
        for (int64_t r = 0; r < 9; ++r) {
            d_output.set(r, 13, 1000);  // the held row would be the largest
        }
        const Matrix gradient = weight_grad_of(context(), d_output, input);
        std::vector<int32_t> slots(20, -1);
        slots[13] = 1;
        slots[2] = 0;
        Matrix aside(DType::fp32, 2, in);
        Sums sums(20 * in);
        add_linear_weight_grad(
            context(), d_output.view(), input.view(), WeightLayout::out_in, sums.view(SumKind::exact, 20, in),
            {.slot_of_row = {slots.data(), 1, std::ssize(slots)}, .values = aside.view().as<float>()});
        float largest = 0;
        for (int64_t o = 0; o < 20; ++o) {
            for (int64_t i = 0; i < in; ++i) {
                const int32_t slot = slots[static_cast<size_t>(o)];
                const int64_t added = slot >= 0 ? 0 : static_cast<int64_t>(std::nearbyint(gradient.at(o, i) * 0x1p20));
                EXPECT_EQ(sums.units[static_cast<size_t>(o * in + i)], 5 + added);
                if (slot >= 0) {
                    EXPECT_EQ(aside.at(slot, i), gradient.at(o, i));
                } else {
                    largest = std::max(largest, std::abs(gradient.at(o, i)));
                }
            }
        }
        EXPECT_EQ(sums.record.largest, largest);
    }
}

TEST_P(WeightGradTest, WhatIsNotFiniteAddsZeroAndIsRecorded) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        for (const SumKind kind : {SumKind::exact, SumKind::fp32}) {
            Matrix d_output = random_matrix(DType::fp32, 9, 20, 1);
            Matrix input = random_matrix(DType::fp32, 9, 70, 2);
            const Matrix clean = weight_grad_of(context(), d_output, input);
            d_output.set(3, 7, bad);
            Sums sums(20 * 70);
            add_linear_weight_grad(context(), d_output.view(), input.view(), WeightLayout::out_in,
                                   sums.view(kind, 20, 70), {});
            EXPECT_TRUE(sums.record.not_finite);
            EXPECT_TRUE(std::isfinite(sums.record.squares));
            EXPECT_TRUE(std::isfinite(sums.record.largest));
            for (size_t place = 0; place < 20 * 70; ++place) {
                const auto value = clean.at(static_cast<int64_t>(place / 70), static_cast<int64_t>(place % 70));
                const bool hurt = place / 70 == 7;
                EXPECT_EQ(sums.floats[place], 5 + (hurt || kind == SumKind::exact ? 0 : value));
                const auto units = static_cast<int64_t>(std::nearbyint(value * 0x1p20));
                EXPECT_EQ(sums.units[place], 5 + (hurt || kind == SumKind::fp32 ? 0 : units));
            }
        }
    }
}

TEST_P(WeightGradTest, UnitsAreRoundedToEvenAndReachSixtyTwoBits) {
    const std::vector<float> values = {0.5F,    1.5F,     2.5F,           -0.5F,   -1.5F,   -3.0F,
                                       0x1p62F, -0x1p62F, 0x1.fffffep62F, 0x1p70F, 0x1p52F, 3e15F};
    const std::vector<int64_t> units = {0,
                                        2,
                                        2,
                                        0,
                                        -2,
                                        -3,
                                        int64_t{1} << 62,
                                        -(int64_t{1} << 62),
                                        0x7fffff8000000000,
                                        0,
                                        int64_t{1} << 52,
                                        static_cast<int64_t>(3e15F)};
    const auto count = static_cast<int64_t>(values.size());
    Matrix d_output(DType::fp32, 1, 1);
    d_output.set(0, 0, 1);
    Matrix input(DType::fp32, 1, count);
    for (int64_t i = 0; i < count; ++i) {
        input.set(0, i, values[static_cast<size_t>(i)]);
    }
    Sums sums(count);
    sums.units.assign(values.size(), 0);
    SumView view = sums.view(SumKind::exact, 1, count);
    view.per_unit = 1;
    add_linear_weight_grad(context(), d_output.view(), input.view(), WeightLayout::out_in, view, {});
    EXPECT_EQ(sums.units, units);
}

TEST_P(WeightGradTest, ZeroRowsAddNothing) {
    Matrix d_output(DType::bf16, 0, 20);
    Matrix input(DType::bf16, 0, 30);
    Sums sums(20 * 30);
    add_linear_weight_grad(context(), d_output.view(), input.view(), WeightLayout::out_in,
                           sums.view(SumKind::exact, 20, 30), {});
    EXPECT_EQ(sums.units, Sums(20 * 30).units);
    EXPECT_EQ(sums.record, GrainRecord{});
}

}  // namespace
}  // namespace accrue::cpu
