#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/kernels/timed/stopwatch.h"
#include "accrue/model/model_spec.h"
#include "accrue/train/settings.h"

namespace accrue {

// What `accrue bench` is asked to measure.
struct BenchRequest {
    std::string model = "gpt2-124m";  // a preset
    DType dtype = DType::bf16;
    int64_t sequence = 1024;
    int64_t samples = 4;      // of a window
    int64_t threads = 0;      // 0 = all
    int64_t micro_batch = 0;  // grains; 0 = as a run with plenty of memory
    SumKind sums = SumKind::exact;
    std::optional<Recompute> recompute = Recompute::nothing;  // nothing = as a run's plan, within compute.memory
    int64_t loss_rows = Choices::kLossRows;
    Choices::WeightCopy weight_copy = Choices::WeightCopy::kept;
    int64_t steps = 3;                        // measured, after those that are not
    std::optional<DeviceName> device = {};    // none = usual_device()
    std::vector<std::string> overrides = {};  // of other settings: "optimizer.moments=8bit"
};

// The sums that are measured beside fp32 ones: those asked for; exact ones where fp32 is asked for.
[[nodiscard]] SumKind sums_beside_fp32(const BenchRequest& request);

// The settings of a run that does this work. Errors: an unknown preset, a sequence longer than the model's positions, an
// override of what the request says in words of its own.
[[nodiscard]] Settings bench_settings(const BenchRequest& request);
// The model that it measures.
[[nodiscard]] std::shared_ptr<const ModelSpec> bench_model(const BenchRequest& request);
// What that run keeps and what it recomputes, in a model of so many blocks.
[[nodiscard]] Choices bench_choices(const BenchRequest& request, int64_t blocks);

// One optimizer step as the clock saw it.
struct StepTimes {
    double seconds = 0;
    Stopwatch::Seconds parts{};
    double waiting = 0;  // seconds in no kernel: for data, and for the thread that orders the work
    int64_t calls = 0;   // of kernels
    double loss = 0;
    int64_t replays = 0;
};

// Steps of the same work, call by call: what is left of their time if each call was disturbed in some step, but not in
// all. On a shared machine a whole step is hardly ever left alone, a call of some milliseconds often is.
class FastestCalls {
public:
    // Steps that did other work, because a window was replayed, are left aside: those with the fewest calls count.
    void add(std::span<const double> call_seconds, double waiting);
    [[nodiscard]] double seconds() const;

private:
    std::vector<double> calls_;
    double waiting_ = 0;
};

// What one process found that ran some steps.
struct StepsMeasurement {
    std::vector<StepTimes> steps;
    // Of a device that goes on when an operation returns (a GPU): one more step, in which each operation was waited for. The
    // others then have no parts.
    std::optional<StepTimes> step_by_parts = {};
    WorkByPart work = {};  // of a step
    // Multiply-add rates in FLOP/s, each the best of some bursts: before the first step and after each. A burst that
    // something else disturbed would make the ceiling low and the steps look good.
    std::vector<double> rates;
    std::vector<double> lasting_rates;  // the means of the same bursts
    double undisturbed_seconds = 0;     // of a step whose every kernel call took as long as the fastest of its kind
    int64_t window_tokens = 0;
    int64_t parameters = 0;
    int64_t grain_samples = 0;
    int64_t grains = 0;
    int64_t micro_batches = 0;
    int64_t planned_peak_bytes = 0;   // the planned arena, and what the process held before it
    int64_t resident_peak_bytes = 0;  // VmHWM; of a GPU what the process holds of its memory
    int64_t arena_bytes = 0;          // the most that the arena held
    std::string plan = {};            // what is recomputed and kept, in words
    std::string device;
    int threads = 0;
};

// Runs real optimizer steps on random words in this process: one that is not measured, then those asked for.
[[nodiscard]] StepsMeasurement measure_steps(const BenchRequest& request);

// Bytes a second, by memory_bandwidth() or, of a GPU, by DeviceCeilings.
[[nodiscard]] double measure_bandwidth(const BenchRequest& request);

// The answer before the time: how far the gradient of one small grain is from the fp32 reference's.
struct GradientCheck {
    int64_t tensors = 0;
    int64_t tokens = 0;
    double largest_error = 0;  // of a tensor: |difference| / |gradient|, Euclidean
    std::string worst_tensor;
    double allowed = 0;
};

// On a model of the same widths with one or two layers and at most 2,048 words, because the reference computes in plain
// loops.
[[nodiscard]] GradientCheck check_gradient(const BenchRequest& request);
// An error if the difference is more than the dtype explains.
void require_right(const GradientCheck& check, const BenchRequest& request);

}  // namespace accrue
