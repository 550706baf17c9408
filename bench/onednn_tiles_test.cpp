#include "bench/onednn_tiles.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(OnednnTilesTest, TilesWhosePaletteIsHiddenAreAvoided) {
    EXPECT_TRUE(onednn_must_avoid_tiles({.has_tiles = true, .largest_palette = 0}));
    EXPECT_FALSE(onednn_must_avoid_tiles({.has_tiles = true, .largest_palette = 1}));
    EXPECT_FALSE(onednn_must_avoid_tiles({.has_tiles = false, .largest_palette = 0})) << "nothing to avoid";
}

TEST(OnednnTilesTest, AProcessorWithoutTilesTellsOfNoPalette) {
    const TileFacts facts = tile_facts();
    if (facts.has_tiles) {
        GTEST_SKIP() << "this processor has tiles";
    }
    EXPECT_EQ(facts.largest_palette, 0U);
}

}  // namespace
}  // namespace accrue
