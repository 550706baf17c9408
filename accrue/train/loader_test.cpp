#include "accrue/train/loader.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(LoaderTest, AGrainsRowsDoNotDependOnItsNeighbours) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 103; ++i) {
        tokens.push_back(i % 50);
    }
    const auto data = dataset_of_tokens(tokens, 10, "test");
    const Loader loader(*data, SampleOrder(SampleOrder::Kind::shuffled, 4, data->size()));
    const Window window{.first = {.epoch = 2, .place = 1}, .samples = 9, .grain_samples = 2};
    const std::vector<int64_t> together = {0, 3, 4};
    const TokenBatch batch = loader.load(window, together);
    ASSERT_EQ(batch.grains.size(), 3U);
    for (const auto& [number, range] : batch.grains) {
        const TokenBatch alone = loader.load(window, std::span(&number, 1));
        const auto part = [first = range.first, rows = range.rows](const auto& values) {
            return std::vector(values.begin() + first, values.begin() + first + rows);
        };
        EXPECT_EQ(alone.tokens, part(batch.tokens));
        EXPECT_EQ(alone.targets, part(batch.targets));
        EXPECT_EQ(alone.positions, part(batch.positions));
        EXPECT_EQ(alone.row_keys, part(batch.row_keys));
    }
}

}  // namespace
}  // namespace accrue
