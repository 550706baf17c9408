#include "accrue/tensor/view.h"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(ViewTest, SlicesShareTheStrideOfTheWhole) {
    std::array<float, 12> numbers{};
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    const View<float> whole(numbers.data(), 3, 4);
    const View<float> part = whole.slice_rows(1, 2).slice_columns(2, 2);
    EXPECT_EQ(part.rows, 2);
    EXPECT_EQ(part.columns, 2);
    EXPECT_EQ(part.elements(), 4);
    EXPECT_EQ(part.row(0)[0], 6.0F);
    EXPECT_EQ(part.row(1)[1], 11.0F);
    const View<const float> constant = part;
    EXPECT_EQ(constant.row(1), part.row(1));
    EXPECT_TRUE(View<float>().empty());
    EXPECT_FALSE(part.empty());
}

TEST(ViewTest, AViewOfUnknownTypeSlicesLikeATypedOne) {
    std::array<Bf16, 12> numbers{};
    const View<Bf16> typed(numbers.data(), 3, 4);
    const AnyView any = typed;
    EXPECT_EQ(any.dtype, DType::bf16);
    const AnyConstView part = any.slice_rows(1, 2).slice_columns(2, 2);
    EXPECT_EQ(part.as<Bf16>().data, typed.slice_rows(1, 2).slice_columns(2, 2).data);
    EXPECT_EQ(part.row(1), typed.row(2) + 2);
    EXPECT_EQ(part.elements(), 4);
}

TEST(ViewTest, AnotherElementTypeIsAnError) {
    std::array<float, 2> numbers{};
    const AnyView any = View<float>(numbers.data(), 1, 2);
    try {
        (void)any.as<Bf16>();
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("given fp32 where it takes bf16"));
    }
}

TEST(Bf16Test, RoundsToNearestAndTiesToEven) {
    EXPECT_EQ(static_cast<float>(Bf16(1.0F)), 1.0F);
    EXPECT_EQ(static_cast<float>(Bf16(1.0F + 0x1p-8F)), 1.0F);  // a tie goes down to even
    EXPECT_EQ(static_cast<float>(Bf16(1.0F + 0x1p-8F + 0x1p-20F)), 1.0F + 0x1p-7F);
    EXPECT_EQ(static_cast<float>(Bf16(1.0F + 3 * 0x1p-8F)), 1.0F + 0x1p-6F);  // a tie goes up to even
    EXPECT_EQ(static_cast<float>(Bf16(std::numeric_limits<float>::max())), std::numeric_limits<float>::infinity());
    EXPECT_EQ(static_cast<float>(Bf16(-std::numeric_limits<float>::infinity())),
              -std::numeric_limits<float>::infinity());
}

// The rounding addition would turn a NaN whose lower bits are set into an infinity or a zero.
TEST(Bf16Test, ANanStaysANan) {
    EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(std::bit_cast<float>(0x7f800001U)))));
    EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(std::bit_cast<float>(0xffffffffU)))));
}

TEST(Bf16Test, EveryBf16SurvivesAsAFloat) {
    for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
        Bf16 value;
        value.bits = static_cast<uint16_t>(bits);
        const auto wide = static_cast<float>(value);
        if (!std::isnan(wide)) {
            ASSERT_EQ(Bf16(wide).bits, value.bits);
        }
    }
}

}  // namespace
}  // namespace accrue
