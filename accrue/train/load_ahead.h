#pragma once

#include <functional>
#include <future>
#include <vector>

#include "accrue/train/loader.h"

namespace accrue {

// A source that is one micro-batch ahead: while a step computes, a thread of its own loads what was announced, also from
// one window into the next. load() gives what it is asked for: an announcement that was wrong (a replay, grains that were
// taken back) costs the time of one load. For one thread.
class LoadAhead final : public PassedBatches {
public:
    // The window that begins at a position.
    using WindowFrom = std::function<Window(const DataPosition&)>;

    // `data`, and what `window_from` refers to, must outlive it; both are asked by another thread.
    LoadAhead(const BatchSource& data, WindowFrom window_from)
        : PassedBatches(data), window_from_(std::move(window_from)) {}

    // What went wrong while loading ahead is thrown when that batch is asked for, or never.
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override;
    void announce(const Window& window, const LikelyGrains& next) const override;

private:
    struct Request {
        Window window;
        std::vector<int64_t> grains;
        bool operator==(const Request&) const = default;
    };
    struct Loaded {
        Request request;
        TokenBatch batch;
    };

    [[nodiscard]] Request request_of(const Window& window, const LikelyGrains& next) const;

    WindowFrom window_from_;
    mutable std::future<Loaded> ahead_;  // a guess, which nobody can see; its destructor waits for the thread
};

}  // namespace accrue
