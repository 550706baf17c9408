// Sums in bf16 on every instruction set, to the bit as kernels/bf16_sum.h says.
#include "accrue/kernels/bf16_sum.h"

#include <cstring>
#include <limits>
#include <vector>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/linear.h"
#include "accrue/kernels/cpu/product_testing.h"

namespace accrue::cpu {
namespace {

constexpr uint64_t kKey = 0x123456789abcdef0;
constexpr SumKind kKinds[] = {SumKind::bf16, SumKind::bf16_stochastic, SumKind::bf16_kahan};

// A window's sum of one tensor that already holds something, and what it must become.
struct RoundedSums {
    SumKind kind;
    std::vector<Bf16> halves;
    std::vector<KahanBf16> pairs;
    GrainRecord record;

    RoundedSums(SumKind kind_, int64_t elements) : kind(kind_) {
        for (uint64_t i = 0; i < static_cast<uint64_t>(elements); ++i) {
            const Bf16 start(100 * normal(mix(5, i)));
            halves.push_back(start);
            pairs.push_back({start, Bf16(0.1F * normal(mix(6, i)))});
        }
    }
    SumView view(int64_t rows, int64_t columns) {
        void* data = kind == SumKind::bf16_kahan ? static_cast<void*>(pairs.data()) : static_cast<void*>(halves.data());
        return {.kind = kind, .data = data, .rows = rows, .columns = columns, .rounding_key = kKey, .record = &record};
    }
    void add(size_t i, float value) {
        halves[i] = kind == SumKind::bf16 ? added_to_nearest(halves[i], value)
                                          : added_by_chance(halves[i], value, random_bits(kKey, i) >> 16);
        pairs[i] = added_with_loss(pairs[i], value);
    }
    void expect_equal(const RoundedSums& wanted) const {
        for (size_t i = 0; i < halves.size() && kind != SumKind::bf16_kahan; ++i) {
            ASSERT_EQ(halves[i].bits, wanted.halves[i].bits) << i;
        }
        for (size_t i = 0; i < pairs.size() && kind == SumKind::bf16_kahan; ++i) {
            ASSERT_EQ(pairs[i].sum.bits, wanted.pairs[i].sum.bits) << i;
            ASSERT_EQ(pairs[i].lost.bits, wanted.pairs[i].lost.bits) << i;
        }
    }
};

// One row of values that goes through a kernel unchanged.
std::vector<float> some_values(int64_t count) {
    std::vector<float> values;
    for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
        values.push_back(i % 7 == 3 ? 0.0F : normal(mix(9, i)));
    }
    return values;
}

class Bf16SumTest : public InstructionSetsTest {};

INSTANTIATE_TEST_SUITE_P(Sets, Bf16SumTest, every_set(), test_name);

TEST_P(Bf16SumTest, EveryKernelThatAddsRoundsAsDefined) {
    const float one = 1;
    for (const SumKind kind : kKinds) {
        for (const int64_t count : {1, 7, 64, 203}) {
            const std::vector<float> values = some_values(count);
            const View<const float> row(values.data(), 1, count);
            RoundedSums wanted(kind, 3 * count);
            for (int64_t i = 0; i < count; ++i) {
                wanted.add(static_cast<size_t>(2 * count + i), values[static_cast<size_t>(i)]);
            }
            // The last of three rows, so that elements begin anywhere.
            RoundedSums looked_up(kind, 3 * count);
            const std::vector<int32_t> entries = {2};
            const std::vector<int32_t> ends = {0, 1};
            const std::vector<int32_t> places = {0};
            const auto listed = [](const std::vector<int32_t>& values) {
                return View<const int32_t>(values.data(), 1, std::ssize(values));
            };
            add_lookup_grad(context(), row, {listed(entries), listed(ends), listed(places)}, {},
                            looked_up.view(3, count));
            looked_up.expect_equal(wanted);

            RoundedSums bias(kind, count);
            RoundedSums product(kind, count);
            RoundedSums plain(kind, count);
            add_bias_grad(context(), row, bias.view(1, count));
            add_linear_weight_grad(context(), View<const float>(&one, 1, 1), row, WeightLayout::out_in,
                                   product.view(1, count), {});
            for (size_t i = 0; i < values.size(); ++i) {
                plain.add(i, values[i]);
            }
            bias.expect_equal(plain);
            product.expect_equal(plain);
            EXPECT_EQ(bias.record.largest, product.record.largest);
        }
    }
}

TEST_P(Bf16SumTest, TheRecordIsThatOfAnExactSum) {
    Matrix d_output = random_matrix(DType::bf16, 33, 60, 1);
    Matrix input = random_matrix(DType::bf16, 33, 130, 2);
    GrainRecord wanted;
    std::vector<int64_t> units(60 * 130);
    add_linear_weight_grad(context(), d_output.view(), input.view(), WeightLayout::out_in,
                           {.data = units.data(), .rows = 60, .columns = 130, .per_unit = 0x1p20, .record = &wanted},
                           {});
    for (const SumKind kind : kKinds) {
        RoundedSums sums(kind, 60 * 130);
        add_linear_weight_grad(context(3), d_output.view(), input.view(), WeightLayout::out_in, sums.view(60, 130), {});
        EXPECT_EQ(sums.record, wanted);
    }
}

TEST_P(Bf16SumTest, WhatIsNotFiniteAddsNothingAndIsRecorded) {
    for (const SumKind kind : kKinds) {
        std::vector<float> values = some_values(50);
        values[20] = std::numeric_limits<float>::quiet_NaN();
        values[41] = -std::numeric_limits<float>::infinity();
        RoundedSums sums(kind, 50);
        add_bias_grad(context(), View<const float>(values.data(), 1, 50), sums.view(1, 50));
        EXPECT_TRUE(sums.record.not_finite);
        RoundedSums wanted(kind, 50);
        values[20] = values[41] = 0;
        for (size_t i = 0; i < values.size(); ++i) {
            wanted.add(i, values[i]);
        }
        sums.expect_equal(wanted);
    }
}

}  // namespace
}  // namespace accrue::cpu
