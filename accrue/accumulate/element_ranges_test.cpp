#include "accrue/accumulate/element_ranges.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace accrue {
namespace {

// With gaps, tensors of one element, and one of many blocks.
const std::vector<FlatTensor> kTensors = {{0, 1}, {16, 3 * kRangeBlock}, {49184, 100'000}, {149'184, 40}, {149'232, 2}};
constexpr int64_t kElements = 149'248;

TEST(ElementRangesTest, RangesFollowOneAnotherAndEachBeginsWithABlock) {
    for (int64_t count = 1; count <= 20; ++count) {
        const auto ranges = cut_into_ranges(kTensors, kElements, count);
        ASSERT_EQ(std::ssize(ranges), count);
        int64_t end = 0;
        for (const ElementRange& range : ranges) {
            EXPECT_EQ(range.first, end);
            EXPECT_GE(range.count, 0);
            end = range.end();
            const bool is_block = std::ranges::any_of(kTensors, [&](const FlatTensor& tensor) {
                return range.first >= tensor.offset && range.first < tensor.offset + tensor.elements &&
                       (range.first - tensor.offset) % kRangeBlock == 0;
            });
            EXPECT_TRUE(is_block || range.count == 0) << range.first << " in " << count << " ranges";
        }
        EXPECT_EQ(end, kElements);
    }
}

TEST(ElementRangesTest, RangesAreAsLargeAsEachOtherButForABlock) {
    const std::vector<FlatTensor> one = {{0, 100 * kRangeBlock + 5}};
    for (const int64_t count : {2, 3, 7, 8}) {
        for (const ElementRange& range : cut_into_ranges(one, one[0].elements, count)) {
            EXPECT_LE(std::abs(range.count - one[0].elements / count), kRangeBlock);
        }
    }
}

TEST(ElementRangesTest, PiecesAreEachElementOfATensorOnce) {
    for (const int64_t count : {1, 2, 5, 11}) {
        std::vector<int64_t> next(kTensors.size(), 0);
        for (const ElementRange& range : cut_into_ranges(kTensors, kElements, count)) {
            for (const TensorPiece& piece : pieces_in(kTensors, range)) {
                EXPECT_EQ(piece.first, next[static_cast<size_t>(piece.tensor)]) << "in the tensor's order";
                EXPECT_EQ(piece.first % kRangeBlock, 0);
                next[static_cast<size_t>(piece.tensor)] += piece.count;
            }
        }
        for (size_t tensor = 0; tensor < kTensors.size(); ++tensor) {
            EXPECT_EQ(next[tensor], kTensors[tensor].elements);
        }
    }
}

TEST(ElementRangesTest, ASmallModelHasEmptyRanges) {
    const std::vector<FlatTensor> small = {{0, 10}};
    const auto ranges = cut_into_ranges(small, 16, 4);
    EXPECT_EQ(std::ranges::count_if(ranges, [](const ElementRange& range) { return range.count > 0; }), 1);
}

}  // namespace
}  // namespace accrue
