#pragma once

#include <cstdint>

namespace accrue::cpu {

// How AMX's eight tiles are set up, in the layout that the instruction ldtilecfg reads: all of them 16 rows of 64 bytes.
struct alignas(64) TileShapes {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

// One for all: it must lie in memory, and the compiler does not see that the instruction reads all of it.
inline constexpr TileShapes kTileShapes;

}  // namespace accrue::cpu
