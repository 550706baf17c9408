#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "accrue/kernels/operations.h"
#include "accrue/kernels/sum_view.h"

// How the kernels that are not products are cut up, and what scratch they take from the arena.
namespace accrue::cpu {

// The norm of a gradient is summed over blocks of this many elements.
inline constexpr int64_t kNormBlockElements = 16384;

[[nodiscard]] constexpr int64_t norm_blocks(int64_t elements) {
    return (elements + kNormBlockElements - 1) / kNormBlockElements;
}

// squared_norm takes one double per block.
[[nodiscard]] constexpr int64_t squared_norm_workspace_bytes(int64_t elements) {
    return norm_blocks(elements) * 8;
}

// add_bias_grad, add_rms_norm_gain_grad and add_layer_norm_gain_grad take one float per element of the gradient.
[[nodiscard]] constexpr int64_t column_sums_workspace_bytes(int64_t columns) {
    return columns * 4;
}

// add_lookup_grad takes one record per entry of the index.
[[nodiscard]] constexpr int64_t lookup_grad_workspace_bytes(int64_t entries) {
    return entries * static_cast<int64_t>(sizeof(GrainRecord));
}

// add_gradient takes one record per block.
[[nodiscard]] constexpr int64_t add_gradient_workspace_bytes(int64_t elements) {
    return norm_blocks(elements) * static_cast<int64_t>(sizeof(GrainRecord));
}

[[nodiscard]] inline int64_t longest_of(std::span<const Segment> segments) {
    int64_t longest = 0;
    for (const Segment& segment : segments) {
        longest = std::max(longest, segment.length);
    }
    return longest;
}

// Queries that attention treats at once, keys and head dimensions in a panel: the largest of any instruction set.
inline constexpr int64_t kMostQueries = 48;
inline constexpr int64_t kMostRows = 8;

// The words from one row of `words` words to the next: rows must not fall on the same places of the cache.
[[nodiscard]] constexpr int64_t attention_row_words(int64_t words) {
    return (words + 15) / 16 * 16 + 16;
}

// Extents of attention's scratch memory, rounded up so that every instruction set fits.
struct AttentionExtents {
    int64_t keys = 0;
    int64_t head = 0;
    int64_t columns = 0;     // of a row of keys' words
    int64_t key_blocks = 0;  // of kMostQueries

    constexpr AttentionExtents(int64_t longest, int64_t head_size)
        : keys((longest + kMostRows - 1) / kMostRows * kMostRows),
          head((head_size + 15) / 16 * 16),
          columns(attention_row_words(keys)),
          key_blocks((longest + kMostQueries - 1) / kMostQueries) {}
};

// attention takes, per thread: packed keys and values, the scores of a block, its output and that turned around.
[[nodiscard]] constexpr int64_t attention_thread_floats(int64_t longest, int64_t head_size) {
    const AttentionExtents extents(longest, head_size);
    return (extents.keys + extents.columns) * extents.head + (extents.keys + 3 * extents.head) * kMostQueries;
}

[[nodiscard]] constexpr int64_t attention_workspace_bytes(int64_t longest, int64_t head_size, int threads) {
    return threads * attention_thread_floats(longest, head_size) * 4;
}

// attention_grad takes, per thread: queries and output gradients packed twice, the gradients of queries in tiles, those
// of keys and values turned around, a block's keys packed twice, its values, a gradient turned back, two values a row.
[[nodiscard]] constexpr int64_t attention_grad_thread_floats(int64_t longest, int64_t head_size) {
    const AttentionExtents extents(longest, head_size);
    const int64_t tiled_head = (extents.head + kMostQueries - 1) / kMostQueries * kMostQueries;
    return 2 * (extents.keys + extents.columns) * extents.head + extents.keys * tiled_head +
           (2 * extents.key_blocks + 4) * kMostQueries * extents.head + 2 * extents.columns;
}

[[nodiscard]] constexpr int64_t attention_grad_workspace_bytes(int64_t longest, int64_t head_size, int threads) {
    return threads * attention_grad_thread_floats(longest, head_size) * 4;
}

}  // namespace accrue::cpu
