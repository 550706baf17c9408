#include "accrue/assess/bench.h"

#include <algorithm>
#include <numeric>

#include "accrue/base/error.h"
#include "accrue/base/machine.h"
#include "accrue/base/random.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/timed/ceilings.h"
#include "accrue/train/engine.h"
#include "accrue/train/inputs.h"
#include "accrue/train/metrics_line.h"
#include "accrue/train/plan_choice.h"
#include "accrue/train/step.h"

namespace accrue {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kBurstsAtOnce = 5;

std::unique_ptr<Dataset> random_words(const ModelSpec& model, const BenchRequest& request) {
    const int64_t samples = request.samples * (request.steps + 1);
    std::vector<int32_t> tokens(static_cast<size_t>(samples * request.sequence + 1));
    for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<int32_t>(mix(kSeed, i) % static_cast<uint64_t>(model.vocabulary()));
    }
    return dataset_of_tokens(std::move(tokens), request.sequence, "random words");
}

void measure_rate(Pool& pool, DType dtype, StepsMeasurement& result) {
    double best = 0;
    double sum = 0;
    for (int burst = 0; burst < kBurstsAtOnce; ++burst) {
        const double rate = multiply_add_rate(pool, dtype, cpu::best_instruction_set());
        best = std::max(best, rate);
        sum += rate;
    }
    result.rates.push_back(best);
    result.lasting_rates.push_back(sum / kBurstsAtOnce);
}

StepTimes timed_step(Engine& engine, Stopwatch& watch, const Loader& loader) {
    const Window window = loader.window_from(engine.state.position, engine.rules.window);
    watch.reset();
    const StopFlag never{false};
    const auto report = run_step(engine, loader, window, never);
    if (report->skipped) {
        throw Error(cat("step ", report->step, " of the benchmark was skipped: ", report->skip_reason, "."));
    }
    const auto& parts = watch.seconds();
    return {.seconds = report->seconds,
            .parts = parts,
            .waiting = report->seconds - std::accumulate(parts.begin(), parts.end(), 0.0),
            .calls = watch.calls(),
            .loss = report->loss.value_or(0),
            .replays = report->replays};
}

}  // namespace

void FastestCalls::add(std::span<const double> call_seconds, double waiting) {
    if (calls_.empty() || call_seconds.size() < calls_.size()) {
        calls_.assign(call_seconds.begin(), call_seconds.end());
        waiting_ = waiting;
    } else if (call_seconds.size() == calls_.size()) {
        std::ranges::transform(calls_, call_seconds, calls_.begin(), [](double a, double b) { return std::min(a, b); });
        waiting_ = std::min(waiting_, waiting);
    }
}

double FastestCalls::seconds() const {
    return std::accumulate(calls_.begin(), calls_.end(), waiting_);
}

SumKind sums_beside_fp32(const BenchRequest& request) {
    return request.sums == SumKind::fp32 ? SumKind::exact : request.sums;
}

std::shared_ptr<const ModelSpec> bench_model(const BenchRequest& request) {
    return known_families().preset(request.model);
}

Settings bench_settings(const BenchRequest& request) {
    const int64_t positions = bench_model(request)->positions();
    if (request.sequence > positions) {
        throw Error(cat("--sequence ", request.sequence, ": ", request.model, " has only ", positions,
                        " positions. Give at most that."));
    }
    Settings settings;
    settings.model.preset = request.model;
    settings.data.order = SampleOrder::Kind::sequential;
    settings.data.sequence_length = request.sequence;
    settings.window.samples = request.samples;
    settings.window.grain_samples = default_grain_samples(settings.compute, request.sequence);
    const Window window{.samples = request.samples, .grain_samples = settings.window.grain_samples};
    const int64_t threads = request.threads > 0 ? request.threads : this_machine().processors;
    const int64_t usual = default_micro_batch_grains(settings, request.sequence, static_cast<int>(threads));
    settings.window.micro_batch_grains =
        std::min(request.micro_batch > 0 ? request.micro_batch : usual, window.grains());
    settings.schedule.kind = Schedule::Kind::constant;
    settings.schedule.warmup_steps = 0;
    settings.compute.dtype = request.dtype;
    settings.compute.threads = request.threads;
    settings.compute.sums = request.sums;
    settings.compute.recompute = request.recompute;
    return settings;
}

Choices bench_choices(const BenchRequest& request, int64_t blocks) {
    Choices choices = choices_of(bench_settings(request), blocks);
    choices.loss_rows = request.loss_rows;
    choices.weight_copy = request.weight_copy;
    return choices;
}

StepsMeasurement measure_steps(const BenchRequest& request) {
    const auto model = bench_model(request);
    const Settings settings = bench_settings(request);
    Pool pool(static_cast<int>(request.threads));
    const auto data = random_words(*model, request);
    const Loader loader(*data, SampleOrder(SampleOrder::Kind::sequential, kSeed, data->size()));
    // Planned and taken as a run does it (plan_choice.h), so that the promise is the same.
    Planner planner(settings, model, request.sequence, pool.threads());
    const ProcessBase base = ProcessBase::measure();
    const Choices choices = bench_choices(request, model->blocks());
    const Plan plan = planner.plan_of(choices, settings.window.micro_batch_grains);
    Arena arena(plan.arena_bytes);
    arena.touch({.pool = &pool});
    const auto kernels = make_cpu_kernels(pool, arena);
    Stopwatch watch(*kernels);
    Engine engine(settings, model, request.sequence, *kernels, choices);
    initialize_weights(engine.model->parameters(), kSeed, engine.put_weights(), {.pool = &pool});
    engine.refresh_copy();

    const Window window{.samples = request.samples, .grain_samples = settings.window.grain_samples};
    StepsMeasurement result{
        .steps = {},
        .rates = {},
        .lasting_rates = {},
        .undisturbed_seconds = 0,
        .window_tokens = request.samples * request.sequence,
        .parameters = engine.model->parameters().elements(),
        .grain_samples = window.grain_samples,
        .grains = window.grains(),
        .micro_batches = (window.grains() + engine.rules.micro_batch_grains - 1) / engine.rules.micro_batch_grains,
        .planned_peak_bytes = std::max(base.peak_bytes, process_bytes(base, planner, plan)),
        .device = kernels->description(),
        .threads = pool.threads()};
    (void)timed_step(engine, watch, loader);
    measure_rate(pool, request.dtype, result);
    FastestCalls fastest;
    for (int64_t step = 0; step < request.steps; ++step) {
        result.steps.push_back(timed_step(engine, watch, loader));
        fastest.add(watch.call_seconds(), result.steps.back().waiting);
        measure_rate(pool, request.dtype, result);
    }
    result.undisturbed_seconds = fastest.seconds();
    result.resident_peak_bytes = peak_resident_bytes();
    return result;
}

double measure_bandwidth(const BenchRequest& request) {
    Pool pool(static_cast<int>(request.threads));
    return memory_bandwidth(pool);
}

}  // namespace accrue
