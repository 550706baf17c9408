#include "accrue/tensor/placement.h"

#include <algorithm>

namespace accrue {

Placement::Extent Placement::find(int64_t bytes) const {
    constexpr int64_t kAlignment = 64;
    const int64_t wanted = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    int64_t place = 0;
    for (const auto& [offset, length] : taken_) {
        if (offset - place >= wanted) {
            break;
        }
        place = offset + length;
    }
    return {.first = place, .last = place + wanted};
}

void Placement::take(const Extent& extent) {
    taken_.emplace(extent.first, extent.last - extent.first);
    in_use_ += extent.last - extent.first;
    high_water_ = std::max(high_water_, extent.last);
}

Placement::Extent Placement::give_back(int64_t first) {
    const auto found = taken_.find(first);
    const Extent extent{.first = first, .last = first + found->second};
    in_use_ -= found->second;
    taken_.erase(found);
    return extent;
}

void Placement::restart_high_water() {
    high_water_ = taken_.empty() ? 0 : taken_.rbegin()->first + taken_.rbegin()->second;
}

int64_t Placement::blocks_behind(int64_t place) const {
    return std::count_if(taken_.begin(), taken_.end(),
                         [place](const auto& block) { return block.first + block.second > place; });
}

}  // namespace accrue
