#pragma once

#include "accrue/base/clock.h"
#include "accrue/observe/run_watch.h"
#include "accrue/train/loader.h"

namespace accrue {

// Passes batches on, and tells how long micro-batches take: each from its loading to the next one's. For one thread.
class WatchedBatches final : public PassedBatches {
public:
    // Both must outlive it.
    WatchedBatches(const BatchSource& data, RunWatch& watch) : PassedBatches(data), watch_(watch) {}

    // What happens until the next load is no micro-batch.
    void pause() { has_begun_ = false; }

    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        if (has_begun_) {
            watch_.micro_batch_milliseconds = milliseconds_since(begin_);
        }
        has_begun_ = true;
        begin_ = Clock::now();
        return data().load(window, grains);
    }

    [[nodiscard]] static int64_t milliseconds_since(Clock::time_point start) {
        return static_cast<int64_t>(1000 * seconds_since(start));
    }

private:
    RunWatch& watch_;
    mutable bool has_begun_ = false;
    mutable Clock::time_point begin_;
};

}  // namespace accrue
