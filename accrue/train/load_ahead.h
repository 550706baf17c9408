#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <vector>

#include "accrue/train/loader.h"

namespace accrue {

// A source that is one micro-batch ahead: while a step computes, a thread of its own loads what a run asks for next, also
// from one window into the next. It only guesses: load() gives what it is asked for, and a wrong guess (the first units,
// a replay, a resume with gaps) costs the time of one load. For one thread.
class LoadAhead final : public BatchSource {
public:
    // The window that begins at a position.
    using WindowFrom = std::function<Window(const DataPosition&)>;

    // `data`, and what `window_from` refers to, must outlive it; both are asked by another thread.
    LoadAhead(const BatchSource& data, WindowFrom window_from, int64_t micro_batch_grains)
        : data_(data), window_from_(std::move(window_from)), micro_batch_grains_(micro_batch_grains) {}

    // From the next guess on.
    void set_micro_batch_grains(int64_t grains) { micro_batch_grains_ = grains; }

    // What went wrong while loading ahead is thrown when that batch is asked for, or never.
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override;

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

    // What a run that meets no obstacle asks for next.
    [[nodiscard]] Request after(const Request& request) const;
    [[nodiscard]] TokenBatch take(const Request& request) const;

    const BatchSource& data_;
    WindowFrom window_from_;
    std::atomic<int64_t> micro_batch_grains_;
    mutable std::future<Loaded> ahead_;  // a guess, which nobody can see; its destructor waits for the thread
};

}  // namespace accrue
