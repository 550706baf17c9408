#include "accrue/dist/linear_check.h"

#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/random.h"

namespace accrue {
namespace {

std::vector<int64_t> integers_of_all_bits(int64_t count, uint64_t seed) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count; ++i) {
        values.push_back(static_cast<int64_t>(mix(seed, static_cast<uint64_t>(i))));
    }
    return values;
}

std::vector<int64_t> wrapped_sum(const std::vector<int64_t>& one, const std::vector<int64_t>& other) {
    std::vector<int64_t> sum;
    for (size_t i = 0; i < one.size(); ++i) {
        sum.push_back(static_cast<int64_t>(static_cast<uint64_t>(one[i]) + static_cast<uint64_t>(other[i])));
    }
    return sum;
}

// Integers of all 64 bits, so that nearly half of the sums overflow.
TEST(LinearCheckTest, ChecksOfContributionsAddUpToThatOfTheSum) {
    for (const int64_t count : {0, 1, 7, 1000}) {
        const auto one = integers_of_all_bits(count, 1);
        const auto other = integers_of_all_bits(count, 2);
        EXPECT_EQ(linear_check(one, 5, 9) + linear_check(other, 5, 9), linear_check(wrapped_sum(one, other), 5, 9))
            << count;
    }
}

TEST(LinearCheckTest, ChecksOfPiecesAddUpToThatOfTheWhole) {
    const auto values = integers_of_all_bits(1000, 1);
    const std::span<const int64_t> all = values;
    const uint64_t whole = linear_check(all, 30, 4);
    for (const size_t cut : {0, 1, 511, 1000}) {
        const auto behind = 30 + static_cast<int64_t>(cut);
        EXPECT_EQ(linear_check(all.first(cut), 30, 4) + linear_check(all.subspan(cut), behind, 4), whole) << cut;
    }
}

TEST(LinearCheckTest, AnyFlippedBitShows) {
    auto values = integers_of_all_bits(70, 1);
    const uint64_t right = linear_check(values, 0, 3);
    for (auto& value : values) {
        for (int bit = 0; bit < 64; ++bit) {
            const int64_t was = value;
            value = static_cast<int64_t>(static_cast<uint64_t>(value) ^ (uint64_t{1} << bit));
            EXPECT_NE(linear_check(values, 0, 3), right) << "bit " << bit;
            value = was;
        }
    }
}

TEST(LinearCheckTest, ExchangedAndMovedElementsShow) {
    const auto values = integers_of_all_bits(100, 1);
    auto swapped = values;
    std::swap(swapped[3], swapped[80]);
    EXPECT_NE(linear_check(swapped, 0, 3), linear_check(values, 0, 3));
    EXPECT_NE(linear_check(values, 1, 3), linear_check(values, 0, 3));
    // What a check whose factors grow evenly would miss.
    auto bent = values;
    bent[10] += 1;
    bent[11] -= 2;
    bent[12] += 1;
    EXPECT_NE(linear_check(bent, 0, 3), linear_check(values, 0, 3));
}

TEST(LinearCheckTest, EachSeedAndPlaceHasItsOwnOddFactor) {
    const std::vector<int64_t> one{1};
    std::set<uint64_t> factors;
    for (uint64_t seed = 0; seed < 30; ++seed) {
        for (int64_t place = 0; place < 30; ++place) {
            const uint64_t factor = linear_check(one, place, seed);
            EXPECT_EQ(factor % 2, 1);
            factors.insert(factor);
        }
    }
    EXPECT_EQ(factors.size(), 900);
}

// The limit that the header names.
TEST(LinearCheckTest, TwoFlippedHighestBitsDoNotShow) {
    auto values = integers_of_all_bits(10, 1);
    const uint64_t right = linear_check(values, 0, 3);
    values[2] ^= std::numeric_limits<int64_t>::min();
    values[7] ^= std::numeric_limits<int64_t>::min();
    EXPECT_EQ(linear_check(values, 0, 3), right);
}

}  // namespace
}  // namespace accrue
