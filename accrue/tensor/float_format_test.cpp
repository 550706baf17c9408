#include "accrue/tensor/float_format.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/tensor/half.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint16_t kInfinity = 0x7c00;

TEST(HalfTest, EveryHalfComesBackFromItsFloat) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const auto half = static_cast<uint16_t>(bits);
        if ((half & 0x7fffU) > kInfinity) {
            EXPECT_TRUE(std::isnan(float_of_half(half)));
            EXPECT_TRUE(std::isnan(float_of_half(half_of_float(float_of_half(half)))));
        } else {
            ASSERT_EQ(half_of_float(float_of_half(half)), half);
        }
    }
}

TEST(HalfTest, BetweenTwoHalvesTheNearerIsTakenAndTiesGoToTheEvenOne) {
    for (uint16_t low = 0; low < kInfinity - 1; ++low) {
        const auto high = static_cast<uint16_t>(low + 1);
        const float middle = (float_of_half(low) + float_of_half(high)) / 2;  // exact: one more bit than a half has
        ASSERT_EQ(half_of_float(middle), low % 2 == 0 ? low : high);
        ASSERT_EQ(half_of_float(std::nextafter(middle, 0.0F)), low);
        ASSERT_EQ(half_of_float(std::nextafter(middle, 1e9F)), high);
        ASSERT_EQ(half_of_float(-middle), 0x8000U | (low % 2 == 0 ? low : high));
    }
}

TEST(HalfTest, FromTheMiddleAboveTheLargestHalfOnItIsInfinity) {
    EXPECT_EQ(half_of_float(65504.0F), 0x7bff);
    EXPECT_EQ(half_of_float(std::nextafter(65520.0F, 0.0F)), 0x7bff);
    EXPECT_EQ(half_of_float(65520.0F), kInfinity);
    EXPECT_EQ(half_of_float(-std::numeric_limits<float>::max()), 0x8000U | kInfinity);
    EXPECT_EQ(half_of_float(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(FloatFormatTest, StoredNumbersComeBackRoundedOnce) {
    const std::vector<float> values = {0.0F, -0.0F, 1.0F, 0.1F, -3.14159F, 65504.0F, 1e-7F};
    for (const FloatFormat format : {FloatFormat::fp32, FloatFormat::bf16, FloatFormat::fp16}) {
        SCOPED_TRACE(name_of(format));
        const auto bytes = stored_bytes(values, format, "x");
        ASSERT_EQ(bytes.size(), values.size() * static_cast<size_t>(bytes_of(format)));
        std::vector<float> once(values.size());
        read_stored(bytes, format, once);
        EXPECT_EQ(stored_bytes(once, format, "x"), bytes);
        EXPECT_EQ(once == values, format == FloatFormat::fp32);
        for (size_t i = 0; i < values.size(); ++i) {
            // bf16 keeps 8 bits, and fp16 counts the smallest numbers in steps of 2^-24.
            EXPECT_NEAR(once[i], values[i], std::abs(values[i]) * 0x1p-8 + 0x1p-25);
        }
    }
}

TEST(FloatFormatTest, WhatDoesNotFitIsAnErrorThatNamesTheTensor) {
    const std::vector<float> large = {1.0F, 70000.0F};
    EXPECT_THAT([&] { (void)stored_bytes(large, FloatFormat::fp16, "blk.0.x"); },
                ThrowsMessage<Error>("tensor blk.0.x holds 70000 at element 1, which is too large for fp16. Choose "
                                     "bf16 or fp32."));
    EXPECT_NO_THROW((void)stored_bytes(large, FloatFormat::bf16, "x"));
    const std::vector<float> largest = {std::numeric_limits<float>::max()};
    EXPECT_THAT([&] { (void)stored_bytes(largest, FloatFormat::bf16, "y"); },
                ThrowsMessage<Error>(HasSubstr("too large for bf16. Choose fp32.")));
    const std::vector<float> broken = {std::numeric_limits<float>::quiet_NaN()};
    for (const FloatFormat format : {FloatFormat::fp32, FloatFormat::bf16, FloatFormat::fp16}) {
        EXPECT_THAT([&] { (void)stored_bytes(broken, format, "z"); },
                    ThrowsMessage<Error>(HasSubstr("tensor z holds nan at element 0")));
    }
}

TEST(FloatFormatTest, AnUnknownNameIsAnErrorThatListsTheNames) {
    EXPECT_EQ(parse_float_format("fp16"), FloatFormat::fp16);
    EXPECT_THAT([] { (void)parse_float_format("int8"); },
                ThrowsMessage<Error>("\"int8\" is no number format; choose bf16, fp16 or fp32."));
}

}  // namespace
}  // namespace accrue
