#include "accrue/kernels/moment_codes.h"

#include <vector>

#include <gtest/gtest.h>

namespace accrue {
namespace {

constexpr uint64_t kTries = 20'000;

TEST(MomentCodesTest, TheLargestValueOfABlockIsKeptAndSignsStay) {
    for (const float scale : {1e-30F, 3e-8F, 1.0F, 7e10F}) {
        EXPECT_FLOAT_EQ(decoded_first(encoded_first(scale, scale, 0.5F), scale), scale);
        EXPECT_FLOAT_EQ(decoded_first(encoded_first(-scale, scale, 0.5F), scale), -scale);
        EXPECT_FLOAT_EQ(decoded_second(encoded_second(scale, scale, 0.5F), scale), scale);
        EXPECT_EQ(encoded_first(0, scale, 1e-5F), 0);
        EXPECT_EQ(encoded_second(0, scale, 1e-5F), 0);
    }
}

TEST(MomentCodesTest, ACodeIsItsOwnRounding) {
    for (int code = -127; code <= 127; ++code) {
        const auto bits = static_cast<uint8_t>(static_cast<int8_t>(code));
        EXPECT_EQ(encoded_first(decoded_first(bits, 0.3F), 0.3F, 0.5F), bits);
    }
    for (int code = 0; code <= 255; ++code) {
        const auto bits = static_cast<uint8_t>(code);
        EXPECT_EQ(encoded_second(decoded_second(bits, 0.3F), 0.3F, 0.5F), bits);
    }
}

// The mean over many keys must be the value, within four standard errors of that mean.
TEST(MomentCodesTest, RoundingIsUnbiased) {
    for (const float value : {-0.9F, -0.01234F, -1e-6F, 3e-5F, 0.001F, 0.2F, 0.77F}) {
        double sum = 0;
        double squares = 0;
        for (uint64_t key = 0; key < kTries; ++key) {
            const double got = decoded_first(encoded_first(value, 1, chance_of_first(random_bits(mix(key), 3))), 1);
            sum += got;
            squares += (got - value) * (got - value);
        }
        EXPECT_NEAR(sum / kTries, value, 4 * std::sqrt(squares) / kTries + 1e-7) << value;
    }
    for (const float value : {1e-8F, 3e-5F, 0.001F, 0.2F, 0.77F}) {
        double sum = 0;
        double squares = 0;
        for (uint64_t key = 0; key < kTries; ++key) {
            const double got = decoded_second(encoded_second(value, 1, chance_of_second(random_bits(mix(key), 3))), 1);
            sum += got;
            squares += (got - value) * (got - value);
        }
        EXPECT_NEAR(sum / kTries, value, 4 * std::sqrt(squares) / kTries + 1e-6 * value) << value;
    }
}

TEST(MomentCodesTest, ASecondMomentThatIsNotZeroNeverBecomesZero) {
    for (const float value : {1e-38F, 1e-20F, 1e-12F, 1e-9F}) {
        for (uint64_t key = 0; key < 100; ++key) {
            EXPECT_GT(decoded_second(encoded_second(value, 1, chance_of_second(random_bits(mix(key), 1))), 1), 0)
                << value;
        }
    }
}

// A second moment whose gradient has vanished must fade: rounding to nearest would keep it for ever.
TEST(MomentCodesTest, AMomentThatChangesByLessThanACodeStillFades) {
    constexpr float kBeta = 0.999F;
    constexpr int kSteps = 2000;
    constexpr size_t kElements = 1000;
    double mean = 0;
    for (uint64_t element = 0; element < kElements; ++element) {
        float value = 0.5F;
        for (uint64_t step = 0; step < kSteps; ++step) {
            const float chance = chance_of_second(random_bits(mix(7, step), element));
            value = decoded_second(encoded_second(value * kBeta, 1, chance), 1);
        }
        mean += static_cast<double>(value) / kElements;
    }
    const double wanted = 0.5 * std::pow(0.999, kSteps);  // 0.0676
    EXPECT_NEAR(mean, wanted, 0.1 * wanted);
    float nearest = 0.5F;
    for (int step = 0; step < kSteps; ++step) {
        nearest = decoded_second(encoded_second(nearest * kBeta, 1, 0.5F), 1);
    }
    EXPECT_GT(nearest, 0.49F);
}

}  // namespace
}  // namespace accrue
