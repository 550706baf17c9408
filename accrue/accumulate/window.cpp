#include "accrue/accumulate/window.h"

#include <algorithm>

namespace accrue {

Window::Places Window::places_of(int64_t grain) const {
    const int64_t begin = grain * grain_samples;
    return {.first = first.place + begin, .count = std::min(grain_samples, samples - begin)};
}

DataPosition Window::next() const {
    if (ends_epoch) {
        return {.epoch = first.epoch + 1, .place = 0};
    }
    return {.epoch = first.epoch, .place = first.place + samples};
}

Window window_at(const DataPosition& position, int64_t epoch_samples, const WindowSize& size,
                 const std::function<int64_t(int64_t)>& weight_at) {
    const int64_t left = epoch_samples - position.place;
    int64_t samples = std::min(size.samples, left);
    if (size.tokens > 0) {
        samples = 0;
        for (int64_t tokens = 0; samples < left && tokens < size.tokens; ++samples) {
            tokens += weight_at(position.place + samples);
        }
    }
    return {.first = position, .samples = samples, .grain_samples = size.grain_samples, .ends_epoch = samples == left};
}

std::vector<MicroBatch> cut(const std::vector<int64_t>& grains, int64_t grains_each) {
    std::vector<MicroBatch> result;
    for (size_t first = 0; first < grains.size(); first += static_cast<size_t>(grains_each)) {
        const size_t last = std::min(grains.size(), first + static_cast<size_t>(grains_each));
        result.push_back(
            {.grains = {grains.begin() + static_cast<int64_t>(first), grains.begin() + static_cast<int64_t>(last)}});
    }
    return result;
}

}  // namespace accrue
