#include "accrue/accumulate/window.h"

#include <algorithm>

namespace accrue {
namespace {

// How many samples from a place on make a window, and whether the epoch has so many.
struct Reach {
    int64_t samples = 0;
    bool is_short = false;
};

Reach reach_from(int64_t place, int64_t epoch_samples, const WindowSize& size,
                 const std::function<int64_t(int64_t)>& weight_at) {
    const int64_t left = epoch_samples - place;
    if (size.tokens == 0) {
        return {.samples = std::min(size.samples, left), .is_short = left < size.samples};
    }
    int64_t samples = 0;
    int64_t tokens = 0;
    for (; samples < left && tokens < size.tokens; ++samples) {
        tokens += weight_at(place + samples);
    }
    return {.samples = samples, .is_short = tokens < size.tokens};
}

}  // namespace

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
    const Reach here = reach_from(position.place, epoch_samples, size, weight_at);
    const int64_t next = position.place + here.samples;
    const bool drops_the_rest =
        size.last == WindowSize::Last::dropped && reach_from(next, epoch_samples, size, weight_at).is_short;
    return {.first = position,
            .samples = here.samples,
            .grain_samples = size.grain_samples,
            .ends_epoch = next == epoch_samples || drops_the_rest,
            .is_short = here.is_short};
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
