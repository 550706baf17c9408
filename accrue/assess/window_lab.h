#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/assess/sum_values.h"
#include "accrue/train/inputs.h"
#include "accrue/train/step.h"

namespace accrue {

// The parts of the program that are put to the test. A test may put a wrong one in their place, to see it found.
struct Parts {
    std::function<std::unique_ptr<Kernels>(const Settings::Compute&, Pool&, Arena&)> kernels;
    std::function<std::optional<StepReport>(Engine&, const BatchSource&, const Window&, const StopFlag&)> step;
};
// The real ones: what `accrue train` computes with.
[[nodiscard]] Parts real_parts();

// Which window of a run is computed, and with which weights.
struct WindowRequest {
    // Weights, moments and units; nothing = the start of the run.
    std::optional<std::filesystem::path> checkpoint = {};
    int64_t step = 0;         // the window of that optimizer step, counted from 1; 0 = the one that comes next
    int64_t most_grains = 0;  // the window is cut off after so many; 0 = all of it
};

// How a window is computed: only what the law leaves free.
struct Way {
    int threads = 0;                      // 0 = as many as the run
    int64_t micro_batch_grains = 0;       // 0 = as many as the run
    std::optional<Choices> choices = {};  // nothing = those of the run
};

// What came out of a window.
struct Computed {
    std::string sums;   // checksum of the sums, before the update
    std::string state;  // checksum of weights and moments, after it
    StepReport step;
    GrainLedger ledger;
    double first_moment_norm = 0;  // after the update; 0 where the optimizer keeps none
    double seconds = 0;
};

// One window of a run, computed again and again in different ways, each time from the same weights. Everything comes
// from one arena, which holds one engine and at most one more sum.
class WindowLab {
public:
    // An error if the memory of this machine does not hold the window one grain at a time.
    WindowLab(const RunInputs& inputs, const WindowRequest& request, Parts parts);
    ~WindowLab();

    [[nodiscard]] const Window& window() const { return window_; }
    [[nodiscard]] int64_t step() const { return step_; }
    [[nodiscard]] int64_t grains() const { return window_.grains(); }
    // Grains that fit into memory at once, with the run's choices: all of the window, if possible.
    [[nodiscard]] int64_t most_at_once() const { return most_at_once_; }
    // Samples that fit at once where each is a grain of its own: at least two, so that they have neighbours.
    [[nodiscard]] int64_t samples_at_once() const { return samples_at_once(most_at_once_); }
    // Grains that fit with other choices, at most as many; nothing if not even one grain fits.
    [[nodiscard]] std::optional<int64_t> most_at_once_with(const Choices& choices) const;
    [[nodiscard]] int threads() const { return threads_; }
    [[nodiscard]] std::string device() const;
    // What each sample of the window must count, and each grain, from the data alone.
    [[nodiscard]] const std::vector<int64_t>& sample_tokens() const { return sample_tokens_; }
    [[nodiscard]] const std::vector<int64_t>& grain_tokens() const { return grain_tokens_; }
    [[nodiscard]] const Loader& loader() const { return loader_; }
    // Valid until the next way is computed; the sum is that of the last one.
    [[nodiscard]] Engine& engine();
    [[nodiscard]] const ModelConfig& model() const { return inputs_.model; }

    // One optimizer step, as `accrue train` takes it.
    [[nodiscard]] Computed by_step(const Way& way);
    // Grains in this order; exact sums only keep their bits.
    [[nodiscard]] Computed in_order(const Way& way, const std::vector<int64_t>& order);
    // Each worker adds its own grains to a sum of its own; then the sums are added. Exact sums only.
    [[nodiscard]] Computed by_workers(const Way& way, int64_t workers);
    // Stopped half way, saved to a checkpoint on disk, loaded into a new engine and finished in another way.
    [[nodiscard]] Computed resumed(const Way& before, const Way& after);

    // A new engine with the weights of the start, for checks of their own.
    void begin(const Way& way);
    // Adds grains to a sum in this order, in micro-batches.
    void add(const Window& window, const std::vector<int64_t>& grains, int64_t at_once, GradientSink& sink);
    // A second sum of a kind, as the engine's.
    [[nodiscard]] GradientSum make_sum(SumKind kind);
    // Units for exact sums of this window, from the first step that was computed.
    [[nodiscard]] const Units& units() const { return units_; }

private:
    struct Rig;

    void rebuild(const Way& way);
    [[nodiscard]] int64_t bytes_for(int64_t grain_samples, int64_t at_once, const Choices& choices) const;
    [[nodiscard]] int64_t bytes_for(int64_t at_once) const;
    [[nodiscard]] int64_t samples_at_once(int64_t grains) const {
        return std::max<int64_t>(2, grains * window_.grain_samples);
    }
    void find_window(const WindowRequest& request);
    void choose_memory();
    [[nodiscard]] Computed finished(const StepReport& report, double seconds);
    [[nodiscard]] StepReport finish_step();

    const RunInputs& inputs_;
    Parts parts_;
    std::optional<std::filesystem::path> checkpoint_;
    std::string definition_;
    Loader loader_;
    int threads_;
    Window window_;
    int64_t step_ = 0;
    std::vector<int64_t> sample_tokens_;
    std::vector<int64_t> grain_tokens_;
    int64_t most_at_once_ = 1;
    int64_t arena_bytes_ = 0;  // of one engine with its micro-batch; more are there for the second sum
    Units units_;
    std::unique_ptr<Arena> arena_;
    std::unique_ptr<Rig> rig_;
};

}  // namespace accrue
