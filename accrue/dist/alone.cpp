#include "accrue/dist/alone.h"

#include <algorithm>
#include <numeric>

namespace accrue {

void AloneAssignment::begin(const WindowRecord& /*window*/, const GrainLedger& mine) {
    grains_ = mine.missing();
    given_ = 0;
}

std::span<const int64_t> AloneAssignment::rest(int64_t most) const {
    const auto left = std::span(grains_).subspan(given_);
    return left.first(std::min(left.size(), static_cast<size_t>(most)));
}

std::vector<int64_t> AloneAssignment::next(int64_t most) {
    const auto grains = rest(most);
    given_ += grains.size();
    return {grains.begin(), grains.end()};
}

LikelyGrains AloneAssignment::likely_next(int64_t most) const {
    const auto grains = rest(most);
    if (!grains.empty()) {
        return {.window = LikelyGrains::Of::this_window, .grains = {grains.begin(), grains.end()}};
    }
    LikelyGrains first{.window = LikelyGrains::Of::next_window,
                       .grains = std::vector<int64_t>(static_cast<size_t>(most))};
    std::iota(first.grains.begin(), first.grains.end(), 0);
    return first;
}

}  // namespace accrue
