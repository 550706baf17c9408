#include "accrue/model/model.h"

#include <algorithm>

namespace accrue {

std::vector<GradientSink::Grain> counted_grains(const TokenBatch& batch) {
    std::vector<GradientSink::Grain> grains;
    for (const auto& [number, range] : batch.grains) {
        const auto first = batch.targets.begin() + range.first;
        const auto is_counted = [](int32_t target) { return target >= 0; };
        grains.push_back({.number = number, .counted_tokens = std::count_if(first, first + range.rows, is_counted)});
    }
    return grains;
}

}  // namespace accrue
