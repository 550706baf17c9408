#include "accrue/base/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/random_key.h"

namespace accrue {
namespace {

TEST(RandomTest, MixingTellsOrderAndLengthApart) {
    EXPECT_NE(mix(1, 2), mix(2, 1));
    EXPECT_NE(mix(1, 2), mix(1, 2, 0));
    EXPECT_NE(mix(0, 0), mix(0, 0, 0));
    EXPECT_EQ(mix(1, 2, 3), mix(1, 2, 3));
}

TEST(RandomTest, MixingHasNoCollisionsAmongSmallNumbers) {
    std::set<uint64_t> seen;
    for (uint64_t a = 0; a < 100; ++a) {
        for (uint64_t b = 0; b < 100; ++b) {
            seen.insert(mix(a, b));
        }
    }
    EXPECT_EQ(seen.size(), 10'000U);
}

// A good mixer changes each output bit with probability one half: 32 of 64, here averaged over 64 x 64 flips.
TEST(RandomTest, EachInputBitChangesHalfOfTheOutput) {
    int64_t changed = 0;
    for (uint64_t number = 0; number < 64; ++number) {
        for (int bit = 0; bit < 64; ++bit) {
            changed += std::popcount(mix(number, 7) ^ mix(number ^ (uint64_t{1} << bit), 7));
        }
    }
    EXPECT_NEAR(static_cast<double>(changed) / (64 * 64), 32.0, 0.5);
}

TEST(RandomTest, UniformNumbersFillTheUnitInterval) {
    EXPECT_EQ(uniform(0), 0.0F);
    EXPECT_LT(uniform(~uint64_t{0}), 1.0F);
    double sum = 0;
    for (uint64_t i = 0; i < 10'000; ++i) {
        sum += uniform(mix(1, i));
    }
    EXPECT_NEAR(sum / 10'000, 0.5, 0.02);  // seven standard errors
}

TEST(RandomTest, NormalNumbersHaveMeanZeroAndVarianceOne) {
    double sum = 0;
    double squares = 0;
    double fourths = 0;
    constexpr int kCount = 100'000;
    for (uint64_t i = 0; i < kCount; ++i) {
        const double value = normal(mix(3, i));
        sum += value;
        squares += value * value;
        fourths += value * value * value * value;
    }
    // More than six standard errors each: 1, sqrt(2) and sqrt(96), divided by the root of the count.
    EXPECT_NEAR(sum / kCount, 0.0, 0.02);
    EXPECT_NEAR(squares / kCount, 1.0, 0.03);
    EXPECT_NEAR(fourths / kCount, 3.0, 0.2);
}

TEST(RandomTest, NormalIsFiniteForEveryHash) {
    EXPECT_TRUE(std::isfinite(normal(0)));
    EXPECT_TRUE(std::isfinite(normal(~uint64_t{0})));
}

TEST(PermutationTest, TakesEveryPlaceOnce) {
    for (const uint64_t size : {1, 2, 3, 7, 64, 1000, 4097}) {
        const Permutation permutation(5, size);
        std::vector<int> seen(size, 0);
        for (uint64_t index = 0; index < size; ++index) {
            const uint64_t place = permutation[index];
            ASSERT_LT(place, size);
            ++seen[place];
        }
        EXPECT_EQ(seen, std::vector<int>(size, 1)) << size;
    }
}

TEST(PermutationTest, DiffersBySeedAndRepeatsWithIt) {
    const Permutation one(1, 1000);
    const Permutation two(2, 1000);
    int same = 0;
    int unmoved = 0;
    for (uint64_t index = 0; index < 1000; ++index) {
        EXPECT_EQ(one[index], Permutation(1, 1000)[index]);
        same += one[index] == two[index];
        unmoved += one[index] == index;
    }
    // One is expected of each for random permutations; ten has a chance of one in ten million.
    EXPECT_LT(same, 10);
    EXPECT_LT(unmoved, 10);
}

// Each bit is 1 half of the time, and neighbours, keys and halves of a word have nothing to do with each other.
TEST(RandomTest, RandomBitsOfElementsAreEvenAndUnrelated) {
    constexpr uint64_t kDraws = 40'000;
    constexpr double kFourDeviations = 4 * 0.5 / 200;  // of a mean of 40,000 bits
    for (const bool by_key : {false, true}) {
        const auto draw = [&](uint64_t i) { return by_key ? random_bits(mix(i), 3) : random_bits(mix(3), i); };
        std::array<int, 32> ones{};
        std::array<int, 32> like_next{};
        std::array<int, 16> like_upper{};
        for (uint64_t i = 0; i < kDraws; ++i) {
            const uint32_t bits = draw(i);
            const uint32_t next = draw(i + 1);
            for (size_t bit = 0; bit < 32; ++bit) {
                ones[bit] += static_cast<int>(bits >> bit & 1U);
                like_next[bit] += static_cast<int>((bits ^ next) >> bit & 1U);
            }
            for (size_t bit = 0; bit < 16; ++bit) {
                like_upper[bit] += static_cast<int>((bits ^ bits >> 16) >> bit & 1U);
            }
        }
        for (size_t bit = 0; bit < 32; ++bit) {
            EXPECT_NEAR(ones[bit] / static_cast<double>(kDraws), 0.5, kFourDeviations);
            EXPECT_NEAR(like_next[bit] / static_cast<double>(kDraws), 0.5, kFourDeviations);
            EXPECT_NEAR(like_upper[bit % 16] / static_cast<double>(kDraws), 0.5, kFourDeviations);
        }
    }
}

TEST(RandomTest, APartHasTheBitsOfItsPlaceInTheWhole) {
    for (const uint64_t key : {uint64_t{0}, mix(1), mix(2, 3)}) {
        for (const int64_t first : {int64_t{0}, int64_t{128}, int64_t{16384 * 7}, (int64_t{1} << 33) + 5}) {
            for (int64_t i = 0; i < 100; ++i) {
                EXPECT_EQ(random_bits(key_from(key, first), static_cast<uint64_t>(i)),
                          random_bits(key, static_cast<uint64_t>(first + i)));
            }
        }
    }
}

}  // namespace
}  // namespace accrue
