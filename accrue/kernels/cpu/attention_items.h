#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "accrue/kernels/kernels.h"

namespace accrue::cpu {

// Some queries of one segment in one head: what a thread takes at a time. No bits depend on how items are cut.
struct AttentionItem {
    Segment segment;
    int64_t head = 0;
    int64_t first_query = 0;
    int64_t end_query = 0;
};

// Every segment in every head, whole where that keeps the threads busy, otherwise cut. Later queries see more keys, so
// they come first: the threads then finish together.
[[nodiscard]] inline std::vector<AttentionItem> attention_items(std::span<const Segment> segments, int64_t heads,
                                                                int threads) {
    constexpr int64_t kCut = 192;  // whole blocks of every instruction set
    const bool whole = static_cast<int64_t>(segments.size()) * heads >= int64_t{4} * threads;
    std::vector<AttentionItem> items;
    for (const Segment& segment : segments) {
        const int64_t cut = whole || threads == 1 ? std::max<int64_t>(1, segment.length) : kCut;
        for (int64_t first = (segment.length - 1) / cut * cut; first >= 0 && segment.length > 0; first -= cut) {
            for (int64_t head = 0; head < heads; ++head) {
                items.push_back({segment, head, first, std::min(segment.length, first + cut)});
            }
        }
    }
    return items;
}

}  // namespace accrue::cpu
