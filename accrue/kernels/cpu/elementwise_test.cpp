// What the conformance table does not ask: work large enough to be cut, special values, every instruction set.
#include "accrue/kernels/cpu/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/random.h"
#include "accrue/kernels/conformance.h"
#include "accrue/kernels/cpu/pieces.h"

namespace accrue::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ElementwiseTest : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        try {
            set_ = instruction_set_named(GetParam());
        } catch (const Error& error) {
            GTEST_SKIP() << error.what();
        }
    }
    [[nodiscard]] Context context() { return {pool_, arena_, set_}; }
    [[nodiscard]] Context alone() { return {one_, arena_, set_}; }

    Pool one_{1};
    Pool pool_{3};
    Arena arena_{int64_t{64} << 20};
    InstructionSet set_ = InstructionSet::portable;
};

std::vector<float> random_row(uint64_t seed, size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
        values[i] = normal(mix(seed, i));
    }
    return values;
}

template <class T>
View<T> row_view(std::vector<T>& values) {
    return {values.data(), 1, static_cast<int64_t>(values.size())};
}

template <class T>
bool same_bits(const T* a, const T* b, size_t count) {
    return std::memcmp(a, b, count * sizeof(T)) == 0;
}

TEST_P(ElementwiseTest, CastRoundsAsBf16Does) {
    std::vector<float> values{0,
                              -0.0F,
                              1,
                              kInfinity,
                              -kInfinity,
                              kNan,
                              0x1.01p0F,
                              0x1.03p0F,
                              0x1p-133F,
                              1e-45F,
                              3.4e38F,
                              std::bit_cast<float>(0x7f800001U),
                              std::bit_cast<float>(0xffc12345U)};
    for (uint64_t i = 0; i < 100'000; ++i) {
        values.push_back(std::bit_cast<float>(static_cast<uint32_t>(mix(7, i))));
    }
    std::vector<Bf16> rounded(values.size());
    cast(context(), row_view(values), {}, row_view(rounded));
    for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(rounded[i].bits, Bf16(values[i]).bits) << std::bit_cast<uint32_t>(values[i]);
    }
}

// However a set rounds, and in the tail of a row too.
TEST_P(ElementwiseTest, StoredBf16IsTheFloatResultRoundedOnce) {
    std::vector<float> input = random_row(6, 1003);
    std::vector<float> wide(input.size());
    std::vector<Bf16> narrow(input.size());
    const auto expect_rounded = [&](const char* name) {
        for (size_t i = 0; i < wide.size(); ++i) {
            ASSERT_EQ(narrow[i].bits, Bf16(wide[i]).bits) << name << " of " << input[i];
        }
    };
    gelu(context(), row_view(input), row_view(wide));
    gelu(context(), row_view(input), row_view(narrow));
    expect_rounded("gelu");
    gelu_grad(context(), row_view(input), row_view(input), row_view(wide));
    gelu_grad(context(), row_view(input), row_view(input), row_view(narrow));
    expect_rounded("gelu_grad");
    std::vector<float> gain(input.size(), 1.5F);
    std::vector<float> mean(1);
    std::vector<float> scale(1);
    layer_norm(context(), row_view(input), row_view(gain), row_view(gain), 1e-5F, row_view(wide), row_view(mean),
               row_view(scale));
    layer_norm(context(), row_view(input), row_view(gain), row_view(gain), 1e-5F, row_view(narrow), row_view(mean),
               row_view(scale));
    expect_rounded("layer_norm");
}

// Three pieces and a tail, against the same elements starting elsewhere.
TEST_P(ElementwiseTest, AnElementDoesNotKnowWhereItsRowWasCut) {
    constexpr size_t kCount = 3 * kPieceElements + 5;
    constexpr int64_t kFirst = 13;
    std::vector<float> input = random_row(1, kCount);
    std::vector<float> d_output = random_row(2, kCount);
    const auto run = [&](AnyConstView x, AnyConstView above) {
        std::vector<float> results(static_cast<size_t>(2 * x.columns));
        const View<float> all = row_view(results);
        gelu(context(), x, all.slice_columns(0, x.columns));
        gelu_grad(context(), above, x, all.slice_columns(x.columns, x.columns));
        return results;
    };
    const auto whole = run(row_view(input), row_view(d_output));
    constexpr auto kLeft = static_cast<int64_t>(kCount) - kFirst;
    const auto part =
        run(row_view(input).slice_columns(kFirst, kLeft), row_view(d_output).slice_columns(kFirst, kLeft));
    EXPECT_TRUE(same_bits(whole.data() + kFirst, part.data(), kLeft));
    EXPECT_TRUE(same_bits(whole.data() + kCount + kFirst, part.data() + kLeft, kLeft));
}

// A case that is cut into several items by the operation of that name.
conformance::Case case_to_cut(const std::string& operation) {
    static_assert(1000 * 70 > 2 * kPieceElements);
    const bool attends = operation.starts_with("attention");  // out is the number of heads there
    const int64_t rows = operation == "attention_grad" ? 300 : 1000;
    return {.dtype = DType::bf16, .rows = rows, .in = 70, .out = attends ? 2 : 130, .dropout = 0.1F};
}

std::vector<conformance::Operation> operations_to_cut() {
    std::vector<conformance::Operation> chosen;
    for (const conformance::Operation& operation : conformance::all_operations()) {
        // Products have tests of their own; these two are too small here, and large memory is moved below.
        if (!operation.name.starts_with("linear") && !operation.name.starts_with("add_linear") &&
            operation.name != "add_sums" && operation.name != "moving" &&
            operation.name != "activations_far_from_zero") {
            chosen.push_back(operation);
        }
    }
    return chosen;
}

TEST_P(ElementwiseTest, BitsAreThoseOfOneThreadWhereWorkIsCut) {
    Pool two(2);
    const auto run = [&](Pool& pool, const conformance::Operation& operation) {
        return operation.run(*make_cpu_kernels(pool, arena_, GetParam()), case_to_cut(operation.name));
    };
    for (const conformance::Operation& operation : operations_to_cut()) {
        SCOPED_TRACE(operation.name);
        const auto expected = run(one_, operation);
        for (Pool* pool : {&two, &pool_}) {
            const auto got = run(*pool, operation);
            for (size_t i = 0; i < got.size(); ++i) {
                EXPECT_TRUE(same_bits(got[i].values.data(), expected[i].values.data(), expected[i].values.size()))
                    << got[i].name << " with " << pool->threads() << " threads";
            }
        }
    }
}

// One norm is one number, in which a difference of one block may be rounded away; not in forty.
TEST_P(ElementwiseTest, NormsAreThoseOfOneThread) {
    constexpr int64_t kElements = 2 * kPieceElements + 7;
    Pool two(2);
    for (uint64_t seed = 0; seed < 40; ++seed) {
        std::vector<int64_t> sums(kElements);
        for (size_t i = 0; i < sums.size(); ++i) {
            sums[i] = static_cast<int64_t>(mix(seed, i)) >> 24;
        }
        const MeanView gradient{
            .kind = SumKind::exact, .data = sums.data(), .elements = kElements, .factor = 0x1p-40 / 3};
        const double expected = squared_norm(alone(), gradient);
        EXPECT_EQ(squared_norm({two, arena_, set_}, gradient), expected) << seed;
        EXPECT_EQ(squared_norm(context(), gradient), expected) << seed;
    }
}

TEST_P(ElementwiseTest, LargeMemoryIsClearedWhole) {
    constexpr size_t kBytes = (size_t{5} << 19) + 3;  // three pieces, the last one short
    std::vector<std::byte> memory(kBytes + 1, std::byte{7});
    fill_zero(context(), std::span(memory).first(kBytes));
    EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0}), static_cast<int64_t>(kBytes));
    EXPECT_EQ(memory.back(), std::byte{7});
}

TEST_P(ElementwiseTest, LargeSumsAreAddedWhole) {
    constexpr size_t kCount = (size_t{5} << 16) + 3;  // three pieces, the last one short
    std::vector<int64_t> sums(kCount);
    std::vector<int64_t> others(kCount);
    std::vector<int64_t> expected(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        sums[i] = static_cast<int64_t>(mix(i));
        others[i] = static_cast<int64_t>(mix(i, 1));
        expected[i] = static_cast<int64_t>(mix(i) + mix(i, 1));
    }
    add_sums(context(), View<const int64_t>(others.data(), 1, kCount), row_view(sums));
    EXPECT_EQ(sums, expected);
}

// So large that it goes past the caches; begins and ends within a line.
TEST_P(ElementwiseTest, ClearedMemoryEndsWhereItShould) {
    constexpr size_t kBytes = (size_t{32} << 20) + 77;
    std::vector<std::byte> memory(kBytes + 64, std::byte{7});
    const std::span<std::byte> all(memory);
    for (const size_t before : {0, 5, 31}) {
        std::ranges::fill(memory, std::byte{7});
        fill_zero(context(), all.subspan(before, kBytes));
        EXPECT_EQ(std::ranges::count(all.first(before), std::byte{7}), static_cast<int64_t>(before));
        EXPECT_EQ(std::ranges::count(all.subspan(before, kBytes), std::byte{0}), static_cast<int64_t>(kBytes));
        EXPECT_EQ(std::ranges::count(all.subspan(before + kBytes), std::byte{7}), static_cast<int64_t>(64 - before));
    }
}

TEST_P(ElementwiseTest, ActivationsKeepNanVisibleAndReachTheirLimits) {
    std::vector<float> input{kNan, 100, -100, 1e30F, -1e30F, kInfinity, 0};
    std::vector<float> output(input.size());
    gelu(context(), row_view(input), row_view(output));
    EXPECT_TRUE(std::isnan(output[0]));
    EXPECT_EQ(std::vector<float>(output.begin() + 1, output.end()),
              (std::vector<float>{100, 0, 1e30F, 0, kInfinity, 0}));

    std::vector<float> ones(input.size(), 1.0F);
    gelu_grad(context(), row_view(ones), row_view(input), row_view(output));
    EXPECT_TRUE(std::isnan(output[0]));
    const std::vector<float> slopes{1, 0, 1, 0, 1, 0.5F};
    for (size_t i = 0; i < slopes.size(); ++i) {
        EXPECT_NEAR(output[i + 1], slopes[i], 1e-30) << input[i + 1];
    }
}

TEST_P(ElementwiseTest, LossOfARowWithNanIsNan) {
    std::vector<float> logits = random_row(3, 3 * 100);
    logits[150] = kNan;
    logits[299] = kInfinity;
    const std::vector<int32_t> targets{0, 1, 2};
    std::vector<float> losses(3);
    cross_entropy(context(), View<float>(logits.data(), 3, 100), View<const int32_t>(targets.data(), 1, 3),
                  row_view(losses), {});
    EXPECT_TRUE(std::isfinite(losses[0]));
    EXPECT_TRUE(std::isnan(losses[1]));
    EXPECT_TRUE(std::isnan(losses[2]));
}

// bf16 gradients over the first half of the logits' own bytes.
TEST_P(ElementwiseTest, LossGradientMayGoWhereTheLogitsWere) {
    constexpr int64_t kColumns = 1003;
    std::vector<float> logits = random_row(4, 2 * kColumns);
    const std::vector<int32_t> targets{1002, -1};
    std::vector<float> losses(2);
    std::vector<Bf16> apart(2 * kColumns);
    const View<float> rows(logits.data(), 2, kColumns);
    const View<const int32_t> target_row(targets.data(), 1, 2);
    cross_entropy(context(), rows, target_row, row_view(losses), View<Bf16>(apart.data(), 2, kColumns));
    auto* place = reinterpret_cast<Bf16*>(logits.data());
    cross_entropy(context(), rows, target_row, row_view(losses), View<Bf16>(place, 2, kColumns, 2 * kColumns));
    EXPECT_TRUE(same_bits(place, apart.data(), kColumns));
    EXPECT_TRUE(same_bits(place + 2 * kColumns, apart.data() + kColumns, kColumns));
}

// A row sees nothing behind itself: not its segment's length, not its place in a block, not the other segments.
TEST_P(ElementwiseTest, AttentionOfARowDependsOnItsPastOnly) {
    constexpr int64_t kHead = 20;
    constexpr int64_t kLong = 300;
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        std::vector<float> wide = random_row(5, kLong * 3 * kHead);
        std::vector<Bf16> narrow(wide.size());
        cast(context(), row_view(wide), {}, row_view(narrow));
        const auto run = [&](const Context& in, int64_t rows) {
            std::vector<float> results(static_cast<size_t>(rows * (kHead + 1)));
            const AnyView all = dtype == DType::fp32 ? AnyView(View<float>(wide.data(), rows, 3 * kHead))
                                                     : AnyView(View<Bf16>(narrow.data(), rows, 3 * kHead));
            const std::vector<Segment> segments{{0, rows}};
            AttentionShape shape;
            shape.head_size = kHead;
            shape.scale = 0.2F;
            const View<float> output(results.data(), rows, kHead, kHead + 1);
            attention(in, shape, segments, all.slice_columns(0, kHead), all.slice_columns(kHead, kHead),
                      all.slice_columns(2 * kHead, kHead), output,
                      View<float>(results.data() + kHead, rows, 1, kHead + 1));
            return results;
        };
        const auto whole = run(context(), kLong);
        for (const int64_t rows : {1, 2, 47, 48, 49, 193, 299}) {
            const auto part = run(alone(), rows);
            EXPECT_TRUE(same_bits(whole.data(), part.data(), part.size())) << rows << " rows of " << name_of(dtype);
        }
    }
}

std::string name_of_set(const testing::TestParamInfo<std::string>& info) {
    return info.param == "avx512-bf16" ? "avx512_bf16" : info.param;
}

INSTANTIATE_TEST_SUITE_P(Cpu, ElementwiseTest, testing::Values("portable", "avx2", "avx512", "avx512-bf16", "amx"),
                         name_of_set);

}  // namespace
}  // namespace accrue::cpu
