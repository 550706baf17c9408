#include "accrue/train/loader.h"

#include <algorithm>

#include "accrue/base/random.h"

namespace accrue {
namespace {

// Rows that attend to each other: the whole sample, or each of its documents where attention may not cross them.
std::vector<Segment> segments_of(const Sample& sample) {
    const auto length = static_cast<int64_t>(sample.tokens.size());
    std::vector<Segment> segments;
    for (size_t i = 0; i < sample.document_starts.size(); ++i) {
        const int64_t first = sample.document_starts[i];
        if (first >= length) {
            break;
        }
        const int64_t next = i + 1 < sample.document_starts.size() ? sample.document_starts[i + 1] : length;
        segments.push_back({.first = first, .length = std::min(next, length) - first});
    }
    if (segments.empty()) {
        segments.push_back({.first = 0, .length = length});
    }
    return segments;
}

void append(TokenBatch& batch, const Sample& sample, uint64_t epoch, uint64_t number) {
    if (sample.tokens.empty()) {
        return;
    }
    const int64_t first_row = batch.rows();
    batch.tokens.insert(batch.tokens.end(), sample.tokens.begin(), sample.tokens.end());
    batch.targets.insert(batch.targets.end(), sample.targets.begin(), sample.targets.end());
    for (const auto& [first, length] : segments_of(sample)) {
        batch.segments.push_back({.first = first_row + first, .length = length});
        for (int64_t position = 0; position < length; ++position) {
            batch.positions.push_back(static_cast<int32_t>(position));
            batch.row_keys.push_back(mix(epoch, number, static_cast<uint64_t>(first + position)));
        }
    }
}

// Calls fill(place) for each place of each grain, and notes which rows each grain got.
template <class Fill>
void fill_grains(TokenBatch& batch, const Window& window, std::span<const int64_t> grains, const Fill& fill) {
    for (const int64_t grain : grains) {
        const Window::Places places = window.places_of(grain);
        const int64_t first_row = batch.rows();
        for (int64_t place = places.first; place < places.first + places.count; ++place) {
            fill(place);
        }
        batch.grains.push_back({.number = grain, .range = {.first = first_row, .rows = batch.rows() - first_row}});
    }
}

}  // namespace

TokenBatch Loader::load(const Window& window, std::span<const int64_t> grains) const {
    TokenBatch batch;
    fill_grains(batch, window, grains, [&](int64_t place) {
        const int64_t sample = order_.sample_at(window.first.epoch, place);
        append(batch, data_.sample(sample), static_cast<uint64_t>(window.first.epoch), static_cast<uint64_t>(sample));
    });
    return batch;
}

int64_t Loader::counted_tokens(const Window& window) const {
    int64_t tokens = 0;
    for (int64_t place = window.first.place; place < window.first.place + window.samples; ++place) {
        tokens += data_.weight(order_.sample_at(window.first.epoch, place));
    }
    return tokens;
}

Window Loader::window_from(const DataPosition& position, const WindowSize& size) const {
    return window_at(position, order_.size(), size,
                     [&](int64_t place) { return data_.weight(order_.sample_at(position.epoch, place)); });
}

std::vector<int64_t> Loader::samples_of(const Window& window, int64_t grain) const {
    const Window::Places places = window.places_of(grain);
    std::vector<int64_t> samples;
    for (int64_t place = places.first; place < places.first + places.count; ++place) {
        samples.push_back(order_.sample_at(window.first.epoch, place));
    }
    return samples;
}

TokenBatch LongestSamples::load(const Window& window, std::span<const int64_t> grains) const {
    const auto length = static_cast<size_t>(sample_tokens_);
    const Sample sample{.tokens = std::vector<int32_t>(length, 0), .targets = std::vector<int32_t>(length, 0)};
    TokenBatch batch;
    fill_grains(batch, window, grains, [&](int64_t place) { append(batch, sample, 0, static_cast<uint64_t>(place)); });
    return batch;
}

SampleOrder sample_order_of(const Settings& settings, int64_t samples) {
    return {settings.data.order, static_cast<uint64_t>(settings.run.seed), samples};
}

}  // namespace accrue
