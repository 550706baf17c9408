#pragma once

#include <cstdint>

namespace accrue {

// Elements that share a scale.
inline constexpr int64_t kMomentBlock = 128;

[[nodiscard]] constexpr int64_t moment_blocks(int64_t elements) {
    return (elements + kMomentBlock - 1) / kMomentBlock;
}

// One moment of one tensor in 8 bits (moment_codes.h). Blocks are counted from the tensor's first element.
struct CodedView {
    uint8_t* codes = nullptr;  // one per element
    float* scales = nullptr;   // one per block
};

// What an update reads and writes of its state.
struct CodedMoments {
    CodedView first;   // or the velocity
    CodedView second;  // AdamW only
    uint64_t rounding_key = 0;
};

}  // namespace accrue
