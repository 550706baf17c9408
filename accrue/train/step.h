#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "accrue/accumulate/statistics.h"
#include "accrue/dist/workers.h"
#include "accrue/train/engine.h"

namespace accrue {

// Set when the run should stop at the next micro-batch: by a signal, or by a test.
using StopFlag = std::atomic<bool>;

// What several workers had to do with a step.
struct TeamFacts {
    int64_t workers = 0;
    double exchange_seconds = 0;  // of the sums; the longest of all
    int64_t exchange_bytes = 0;   // sent by all of them
    int64_t lost_workers = 0;     // so far
    int64_t grains_recomputed = 0;
    int64_t peak_bytes = 0;  // the most that one of them has held
};

// What one optimizer step did. Everything but the seconds and the team is the same for every cut of the window.
struct StepReport {
    int64_t step = 0;  // counted from 1
    Window window;
    std::optional<double> loss = {};  // mean over counted tokens; nothing if none was counted or the sum is not finite
    int64_t tokens = 0;
    int64_t micro_batches = 0;
    double rate = 0;
    double beta2 = 0;
    std::optional<double> grad_norm = {};
    bool clipped = false;
    GrainStatistics grains = {};
    bool skipped = false;
    std::string skip_reason = {};
    std::optional<int64_t> bad_grain = {};   // the lowest with a NaN or an infinity
    std::optional<int64_t> loss_scale = {};  // of the window; nothing where losses are not scaled
    bool lowers_loss_scale = false;          // skipped because of it, and no sign that the gradient itself is bad
    int64_t replays = 0;

    double seconds = 0;
    double grain_seconds_mean = 0;
    double grain_seconds_max = 0;
    double data_wait_seconds = 0;
    std::optional<TeamFacts> team = {};  // where workers computed it
    bool is_mixed = false;               // have workers with other bits taken part in the run so far?
};

// One optimizer step of everybody together: every grain of the window that is not in the sums yet, then one update, which
// all compute alike. All workers call it with the same window. Nothing if somebody's `stop` was set before the window was
// complete: it stays open, one worker's sums hold all that was done, and the next call goes on from there, with whatever
// workers there are then. If another worker is lost, what `workers` throws comes out, and the next call goes on from the own
// sums. An error, and no update, if the data left a grain out.
[[nodiscard]] std::optional<StepReport> run_step(Engine& engine, const Workers& workers, const BatchSource& data,
                                                 const Window& window, const StopFlag& stop);

// The last part of a step: the update of a complete window whose sums are everybody's, with the norm of its mean gradient where
// workers share the state.
[[nodiscard]] StepReport apply_window(Engine& engine, std::optional<double> norm);

// A step of one process alone.
[[nodiscard]] std::optional<StepReport> run_step(Engine& engine, const BatchSource& data, const Window& window,
                                                 const StopFlag& stop);

}  // namespace accrue
