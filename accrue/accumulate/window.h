#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace accrue {

// Where a run stands in its data: which place of which epoch comes next. Counted in samples.
struct DataPosition {
    int64_t epoch = 0;
    int64_t place = 0;

    bool operator==(const DataPosition&) const = default;
};

// The samples of one optimizer step: places first .. first + samples - 1 of an epoch, cut into grains of
// `grain_samples`. Grains are numbered from 0; the last may be short. Nothing must divide anything.
struct Window {
    DataPosition first = {};
    int64_t samples = 0;
    int64_t grain_samples = 1;
    bool ends_epoch = false;
    bool is_short = false;  // the epoch ended before the window had the size that was asked for

    bool operator==(const Window&) const = default;

    [[nodiscard]] int64_t grains() const { return (samples + grain_samples - 1) / grain_samples; }
    struct Places {
        int64_t first = 0;
        int64_t count = 0;
    };
    // The places of one grain.
    [[nodiscard]] Places places_of(int64_t grain) const;
    // Where the next window begins.
    [[nodiscard]] DataPosition next() const;
};

// How large windows are: so many samples, or, with tokens > 0, as many samples as reach that many counted tokens.
struct WindowSize {
    // What becomes of the samples at the end of an epoch that do not fill a window.
    enum class Last { kept, dropped };

    int64_t samples = 0;
    int64_t tokens = 0;
    int64_t grain_samples = 1;
    Last last = Last::kept;
};

// The window that begins at a position. It never crosses the end of the epoch, so the last one may be short, unless such
// windows are dropped: then the last whole one ends the epoch, and only an epoch of less than one window has a short one.
// weight_at(place) is asked only when the size is given in tokens.
[[nodiscard]] Window window_at(const DataPosition& position, int64_t epoch_samples, const WindowSize& size,
                               const std::function<int64_t(int64_t place)>& weight_at);

// Grains that pass through the layers together.
struct MicroBatch {
    std::vector<int64_t> grains;
};

// Cuts grains into micro-batches of `grains_each`; the last may be short.
[[nodiscard]] std::vector<MicroBatch> cut(const std::vector<int64_t>& grains, int64_t grains_each);

}  // namespace accrue
