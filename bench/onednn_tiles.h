#pragma once

#include <cstdint>

#include <cpuid.h>

namespace accrue {

// What a processor says of its tiles.
struct TileFacts {
    bool has_tiles = false;        // AMX with bf16: CPUID leaf 7
    uint32_t largest_palette = 0;  // CPUID leaf 0x1D; some hypervisors hide that leaf, which then reads 0
};

[[nodiscard]] inline TileFacts tile_facts() {
    constexpr unsigned kBf16AndTiles = 1U << 22U | 1U << 24U;
    TileFacts facts;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    facts.has_tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16AndTiles) == kBf16AndTiles;
    facts.largest_palette = __get_cpuid_count(0x1D, 0, &a, &b, &c, &d) != 0 ? a : 0;
    return facts;
}

// Whether oneDNN must be kept from tiles. It configures them by the largest palette that the processor tells of; palette 0
// switches them off, and its next tile instruction ends the program (oneDNN 2.6.3, get_max_palette of cpu_isa_traits.cpp).
[[nodiscard]] constexpr bool onednn_must_avoid_tiles(const TileFacts& facts) {
    return facts.has_tiles && facts.largest_palette == 0;
}

}  // namespace accrue
