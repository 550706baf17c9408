#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/assess/lab_memory.h"
#include "accrue/assess/sum_values.h"
#include "accrue/kernels/device.h"
#include "accrue/train/inputs.h"
#include "accrue/train/step.h"

namespace accrue {

// What is put to the test of the program: its kernels and its step. A test may put a wrong one in their place, to see it
// found.
struct ProgramUnderTest {
    std::function<std::unique_ptr<Kernels>(const DeviceChoice&, Pool&, Arena&)> kernels;
    std::function<std::optional<StepReport>(Engine&, const BatchSource&, const Window&, const StopFlag&)> step;
};
// The real ones: what `accrue train` computes with.
[[nodiscard]] ProgramUnderTest real_program();

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
    std::optional<Choices> choices = {};  // nothing = what memory allows, as in a run
    DeviceChoice::Graphs graphs = DeviceChoice::Graphs::replayed;
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
    // An error if compute.memory or the machine does not hold the window one grain at a time.
    WindowLab(const RunInputs& inputs, const WindowRequest& request, ProgramUnderTest program);
    ~WindowLab();

    [[nodiscard]] const Window& window() const { return window_; }
    [[nodiscard]] int64_t step() const { return step_; }
    [[nodiscard]] int64_t grains() const { return window_.grains(); }
    // What fits into memory, and the choices of ways that name none.
    [[nodiscard]] const LabMemory& memory() const { return *memory_; }
    [[nodiscard]] int64_t most_at_once() const { return memory_->most_at_once(); }
    [[nodiscard]] int64_t samples_at_once() const { return memory_->samples_at_once(); }
    [[nodiscard]] int threads() const { return threads_; }
    [[nodiscard]] std::string device() const;
    // What each sample of the window must count, and each grain, from the data alone.
    [[nodiscard]] const std::vector<int64_t>& sample_tokens() const { return sample_tokens_; }
    [[nodiscard]] const std::vector<int64_t>& grain_tokens() const { return grain_tokens_; }
    [[nodiscard]] const Loader& loader() const { return loader_; }
    // Valid until the next way is computed; the sum is that of the last one.
    [[nodiscard]] Engine& engine();
    [[nodiscard]] const ModelSpec& model() const { return *inputs_.model; }

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
    void find_window(const WindowRequest& request);
    // With the units of the first step that was computed, and no grain in the sums.
    void open_window();
    [[nodiscard]] Computed finished(const StepReport& report, double seconds);
    [[nodiscard]] StepReport finish_step();

    const RunInputs& inputs_;
    ProgramUnderTest program_;
    std::optional<std::filesystem::path> checkpoint_;
    std::string definition_;
    Loader loader_;
    int threads_;
    Window window_;
    int64_t step_ = 0;
    std::vector<int64_t> sample_tokens_;
    std::vector<int64_t> grain_tokens_;
    Units units_;
    std::optional<LabMemory> memory_;
    std::unique_ptr<Arena> arena_;
    std::unique_ptr<Rig> rig_;
};

}  // namespace accrue
