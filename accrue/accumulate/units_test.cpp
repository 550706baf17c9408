#include "accrue/accumulate/units.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(UnitsTest, TheLargestGradientGetsThirtyEightDigits) {
    const Units units = Units::first(std::vector<float>{1.0F, 1.5F, 0.5F, 3e-20F});
    EXPECT_EQ(units.exponents()[0], -38);
    EXPECT_EQ(units.exponents()[1], 1 - 38);
    EXPECT_EQ(units.exponents()[2], -1 - 38);
    EXPECT_GE(3e-20, units.unit(3) * 0x1p37);
    EXPECT_LE(3e-20, units.unit(3) * 0x1p38);
}

TEST(UnitsTest, AFirstZeroTensorTakesTheUnitOfTheLargestAndALaterOneKeepsItsOwn) {
    const Units first = Units::first(std::vector<float>{4.0F, 0.0F, 1.0F});
    EXPECT_EQ(first.exponents(), (std::vector<int32_t>{2 - 38, 2 - 38, -38}));
    const Units next = first.next(std::vector<float>{0.0F, 8.0F, 0.0F});
    EXPECT_EQ(next.exponents(), (std::vector<int32_t>{2 - 38, 3 - 38, -38}));
    EXPECT_EQ(Units::first(std::vector<float>{0.0F}).exponents(), std::vector<int32_t>{-38});
}

TEST(UnitsTest, OverflowIsJudgedByTheWindowsGrains) {
    const Units units = Units::first(std::vector<float>{1.0F, 1.0F});  // 2^62 units are 2^24
    const std::vector<float> largest = {0x1p20F, 1.0F};
    EXPECT_TRUE(units.overflowing(largest, 15).empty());
    EXPECT_EQ(units.overflowing(largest, 16), std::vector<int64_t>{0});
    const Units coarser = units.coarser(units.overflowing(largest, 16));
    EXPECT_EQ(coarser.exponents(), (std::vector<int32_t>{-38 + 16, -38}));
    EXPECT_TRUE(coarser.overflowing(largest, 16).empty());
}

}  // namespace
}  // namespace accrue
