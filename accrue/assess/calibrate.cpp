#include "accrue/assess/calibrate.h"

#include <algorithm>
#include <numeric>

#include "accrue/base/random.h"
#include "accrue/kernels/timed/stopwatch.h"
#include "accrue/train/engine.h"
#include "accrue/train/step.h"

namespace accrue {
namespace {

// A whole number of every tile's columns, and no other product of a preset has so many outputs.
constexpr int64_t kCalibrationWords = 2064;
constexpr uint64_t kCalibrationSeed = 1;
// Of the steps of one plan the fastest counts: whatever else runs here can only slow them down.
constexpr int kTries = 2;
// Where a typical machine would take longer for one step, part of the grain is measured, then part of a sample; but not
// so few tokens that products become small.
constexpr double kLongestStep = 2;  // seconds
constexpr int64_t kFewTokens = 1024;

// The longest samples, of random words.
class RandomWords final : public PassedBatches {
public:
    // `samples` must outlive it.
    RandomWords(const LongestSamples& samples, int64_t vocabulary) : PassedBatches(samples), vocabulary_(vocabulary) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        TokenBatch batch = data().load(window, grains);
        const auto word = [this](size_t place, uint64_t kind) {
            return static_cast<int32_t>(mix(kCalibrationSeed, kind, place) % static_cast<uint64_t>(vocabulary_));
        };
        for (size_t row = 0; row < batch.tokens.size(); ++row) {
            batch.tokens[row] = word(row, 0);
            batch.targets[row] = word(row, 1);
        }
        return batch;
    }

private:
    int64_t vocabulary_;
};

// An engine with fresh weights that runs steps of one micro-batch of the longest samples.
class MeasuredEngine {
public:
    MeasuredEngine(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                   Pool& pool, int64_t arena_bytes, const Plan& first, const StateSharing& sharing = {})
        : arena_(make_backing(device_of(settings.compute), arena_bytes),
                 make_host_part(device_of(settings.compute), first.host_bytes, {.pool = &pool})),
          kernels_(make_kernels(device_of(settings.compute), pool, arena_)),
          goes_on_(device_of(settings.compute).name.kind == DeviceKind::cuda),
          engine_(settings, model, longest_sample, *kernels_, first.choices, sharing),
          samples_(longest_sample),
          words_(samples_, model->vocabulary()),
          grain_samples_(settings.window.grain_samples) {
        initialize_weights(engine_.model->parameters(), kCalibrationSeed, engine_.put_weights());
        engine_.refresh_copy();
    }

    // By part, the fastest of some steps after one that is not measured.
    Stopwatch::Seconds seconds(const Plan& plan) {
        engine_.choose(plan.choices);
        engine_.rules.micro_batch_grains = plan.micro_batch_grains;
        const Window window{.samples = plan.micro_batch_grains * grain_samples_, .grain_samples = grain_samples_};
        const StopFlag never{false};
        Stopwatch watch(*kernels_);
        Stopwatch::Seconds best{};
        for (int attempt = 0; attempt <= kTries; ++attempt) {
            watch.reset();
            (void)run_step(engine_, words_, window, never);
            if (attempt == 1 || (attempt > 1 && total(watch.seconds()) < total(best))) {
                best = watch.seconds();
            }
        }
        return best;
    }

    // Of a micro-batch and of the update. A GPU that is watched waits for each operation: the whole is measured once more, unwatched.
    struct StepSeconds {
        double micro_batch = 0;
        double update = 0;
    };
    StepSeconds step_seconds(const Plan& plan) {
        const Stopwatch::Seconds parts = seconds(plan);
        const double update = parts[static_cast<size_t>(Part::optimizer)];
        double all = total(parts);
        if (goes_on_) {
            const Window window{.samples = plan.micro_batch_grains * grain_samples_, .grain_samples = grain_samples_};
            const StopFlag never{false};
            for (int attempt = 0; attempt <= kTries; ++attempt) {
                all = std::min(all, run_step(engine_, words_, window, never)->seconds);
            }
        }
        return {.micro_batch = std::max(0.0, all - update), .update = update};
    }

    static double total(const Stopwatch::Seconds& seconds) {
        return std::accumulate(seconds.begin(), seconds.end(), 0.0);
    }

private:
    Arena arena_;
    std::unique_ptr<Kernels> kernels_;
    bool goes_on_;  // when an operation returns
    Engine engine_;
    LongestSamples samples_;
    RandomWords words_;
    int64_t grain_samples_;
};

constexpr size_t index_of(Part part) {
    return static_cast<size_t>(part);
}

// What streams goes at the optimizer's rate, whose arrays no cache holds; products have the rest of their time for
// arithmetic.
Rates rates_of(const WorkByPart& work, const Stopwatch::Seconds& seconds, const Rates& typical) {
    Rates rates = typical;
    const size_t optimizer = index_of(Part::optimizer);
    const double streaming = seconds[optimizer] > 0 ? work[optimizer].bytes / seconds[optimizer] : typical.bytes[0];
    for (size_t part = 0; part < work.size(); ++part) {
        const Work& here = work[part];
        if (seconds[part] <= 0) {
            continue;
        }
        if (here.flops > 0) {
            rates.bytes[part] = streaming;
            rates.flops[part] = here.flops / std::max(seconds[part] - here.bytes / streaming, seconds[part] / 2);
        } else {
            rates.bytes[part] = here.bytes / seconds[part];
        }
    }
    return rates;
}

}  // namespace

Rates measure_rates(const RunInputs& inputs, Pool& pool, int64_t room) {
    const auto model = inputs.model->at_most({.blocks = 1, .vocabulary = kCalibrationWords});
    Settings settings = inputs.settings;
    settings.window.micro_batch_grains = 1;
    settings.compute.recompute = Recompute::nothing;
    settings.compute.host_state = HostState::none;  // what goes over the bus is no kernel's rate
    const Rates typical = Rates::typical(settings, pool.threads());
    const auto plan_of = [&](int64_t sample) { return Planner(settings, model, sample, pool.threads()).unlimited(); };
    int64_t sample = inputs.longest_sample();
    Plan plan = plan_of(sample);
    while (plan.window_seconds(1, typical) > kLongestStep && settings.window.grain_samples * sample > kFewTokens) {
        (settings.window.grain_samples > 1 ? settings.window.grain_samples : sample) /= 2;
        plan = plan_of(sample);
    }
    if (plan.arena_bytes > room) {
        return typical;
    }
    MeasuredEngine engine(settings, model, sample, pool, plan.arena_bytes, plan);
    return rates_of(plan.work, engine.seconds(plan), typical);
}

std::vector<double> measure_plans(const RunInputs& inputs, Pool& pool, const std::vector<Plan>& plans,
                                  double window_grains, const StateSharing& sharing) {
    std::vector<double> result;
    int64_t arena_bytes = 0;
    for (const Plan& plan : plans) {
        arena_bytes = std::max(arena_bytes, plan.arena_bytes);
    }
    MeasuredEngine engine(inputs.settings, inputs.model, inputs.longest_sample(), pool, arena_bytes, plans.front(),
                          sharing);
    for (const Plan& plan : plans) {
        const auto [micro_batch, update] = engine.step_seconds(plan);
        result.push_back(micro_batch * window_grains / static_cast<double>(plan.micro_batch_grains) + update);
    }
    return result;
}

}  // namespace accrue
