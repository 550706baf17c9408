#include "accrue/assess/bench.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "accrue/assess/device_ceilings.h"
#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/base/machine.h"
#include "accrue/base/random.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/gpus.h"
#include "accrue/kernels/timed/ceilings.h"
#include "accrue/train/engine.h"
#include "accrue/train/inputs.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/metrics_line.h"
#include "accrue/train/plan_choice.h"
#include "accrue/train/rehearsal.h"
#include "accrue/train/step.h"

namespace accrue {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kBurstsAtOnce = 5;
constexpr int64_t kStepsAfterBursts = 2;

// Enough for every window to be new.
std::unique_ptr<Dataset> random_words(const ModelSpec& model, const Settings& settings, int64_t windows) {
    const int64_t samples = settings.window.samples * windows;
    const int64_t length = settings.data.sequence_length;
    std::vector<int32_t> tokens(static_cast<size_t>(samples * length + 1));
    for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<int32_t>(mix(kSeed, i) % static_cast<uint64_t>(model.vocabulary()));
    }
    return dataset_of_tokens(std::move(tokens), length, "random words");
}

void measure_rate(const std::function<double()>& burst_rate, StepsMeasurement& result) {
    double best = 0;
    double sum = 0;
    for (int burst = 0; burst < kBurstsAtOnce; ++burst) {
        const double rate = burst_rate();
        best = std::max(best, rate);
        sum += rate;
    }
    result.rates.push_back(best);
    result.lasting_rates.push_back(sum / kBurstsAtOnce);
}

bool is_gpu(const Settings& settings) {
    return device_of(settings.compute).name.kind == DeviceKind::cuda;
}

// With the update, on which a device may still be at work when the step returns.
StepTimes timed_step(Engine& engine, const BatchSource& batches, const Loader& loader) {
    const Window window = loader.window_from(engine.state.position, engine.rules.window);
    const StopFlag never{false};
    const auto start = Clock::now();
    const auto report = run_step(engine, batches, window, never);
    (void)downloaded(engine.kernels, View<const float>(engine.weights.master).slice_columns(0, 1));
    const double seconds = seconds_since(start);
    if (report->skipped) {
        throw Error(cat("step ", report->step, " of the benchmark was skipped: ", report->skip_reason, "."));
    }
    return {.seconds = seconds, .loss = report->loss.value_or(0), .replays = report->replays};
}

StepTimes watched_step(Engine& engine, Stopwatch& watch, const BatchSource& batches, const Loader& loader) {
    watch.reset();
    StepTimes step = timed_step(engine, batches, loader);
    step.parts = watch.seconds();
    step.waiting = step.seconds - std::accumulate(step.parts.begin(), step.parts.end(), 0.0);
    step.calls = watch.calls();
    return step;
}

// How a run of these settings would take its memory.
struct BenchPlan {
    Plan plan;
    int64_t address_bytes = 0;
    int64_t peak_bytes = 0;  // of the process
};

// On a GPU, and where it is left open what is recomputed, as a run chooses it (plan_choice.h), so that the promise is the same.
BenchPlan bench_plan(const BenchRequest& request, const Settings& settings,
                     const std::shared_ptr<const ModelSpec>& model, int threads) {
    const bool is_usual = request.loss_rows == Choices::kLossRows && request.weight_copy == Choices::WeightCopy::kept;
    if (is_usual && (is_gpu(settings) || !request.recompute)) {
        const PlanChoice choice(settings, model, request.sequence, threads);
        return {.plan = choice.plan(),
                .address_bytes = is_gpu(settings) ? choice.address_bytes() : choice.plan().arena_bytes,
                .peak_bytes = choice.peak_bytes()};
    }
    Planner planner(settings, model, request.sequence, threads);
    const ProcessBase base = ProcessBase::measure(planner.device());
    const Plan plan = planner.plan_of(bench_choices(request, model->blocks()), settings.window.micro_batch_grains);
    return {.plan = plan,
            .address_bytes = plan.arena_bytes + spare_bytes(planner, plan),
            .peak_bytes = std::max(base.peak_bytes, process_bytes(base, planner, plan))};
}

WorkByPart work_of_step(const Plan& plan, int64_t grains) {
    const double micro_batches = static_cast<double>(grains) / static_cast<double>(plan.micro_batch_grains);
    WorkByPart work = plan.work;
    for (size_t part = 0; part < work.size(); ++part) {
        const double times = static_cast<Part>(part) == Part::optimizer ? 1 : micro_batches;
        work[part] = {.flops = work[part].flops * times, .bytes = work[part].bytes * times};
    }
    return work;
}

// What is done in the time between two looks at the clock is known: every operation is over when it returns.
void run_on_processor(const BenchRequest& request, Pool& pool, Engine& engine, const Loader& loader, int64_t unmeasured,
                      StepsMeasurement& result) {
    const auto rate = [&] { return multiply_add_rate(pool, request.dtype, cpu::best_instruction_set()); };
    Stopwatch watch(engine.kernels);
    for (int64_t step = 0; step < unmeasured; ++step) {
        (void)watched_step(engine, watch, loader, loader);
    }
    measure_rate(rate, result);
    FastestCalls fastest;
    for (int64_t step = 0; step < request.steps; ++step) {
        result.steps.push_back(watched_step(engine, watch, loader, loader));
        fastest.add(watch.call_seconds(), result.steps.back().waiting);
        measure_rate(rate, result);
    }
    result.undisturbed_seconds = fastest.seconds();
    result.resident_peak_bytes = peak_resident_bytes();
}

// As a run goes on: batches are loaded ahead, nobody waits for an operation, and nothing else runs between the steps. The bursts
// that measure a rate take all the power that a GPU may have, and its clock is slow for a while after: a few steps pass before
// those that count. Where the time goes is seen in one step more.
void run_on_gpu(const BenchRequest& request, const DeviceChoice& device, Pool& pool, Engine& engine,
                const Loader& loader, int64_t unmeasured, StepsMeasurement& result) {
    const LoadAhead batches(
        loader, [&](const DataPosition& position) { return loader.window_from(position, engine.rules.window); });
    const auto run_steps = [&](int64_t count) {
        std::vector<StepTimes> steps;
        for (int64_t step = 0; step < count; ++step) {
            steps.push_back(timed_step(engine, batches, loader));
        }
        return steps;
    };
    const auto measure = [&] {
        DeviceCeilings ceilings(device, pool, request.dtype);
        measure_rate([&] { return ceilings.product_rate(); }, result);
    };
    (void)run_steps(unmeasured);
    measure();
    (void)run_steps(kStepsAfterBursts);
    result.steps = run_steps(request.steps);
    measure();
    result.resident_peak_bytes = memory_of_gpu(device.name.gpu).process_bytes;
    Stopwatch watch(engine.kernels);
    result.step_by_parts = watched_step(engine, watch, batches, loader);
}

// The settings that the request has words of its own for.
void refuse_doubled(const std::string& override) {
    constexpr std::pair<std::string_view, std::string_view> kOwn[] = {
        {"model.preset=", "--model"},      {"data.sequence_length=", "--sequence"},
        {"window.samples=", "--samples"},  {"window.micro_batch_grains=", "--micro-batch"},
        {"compute.threads=", "--threads"}, {"compute.dtype=", "--dtype"},
        {"compute.sums=", "--sums"},       {"compute.recompute=", "--recompute"},
        {"compute.device=", "--device"},
    };
    for (const auto& [key, option] : kOwn) {
        if (override.starts_with(key)) {
            throw Error(cat("--set ", override, ": accrue bench has ", option, " for that. Give it there."));
        }
    }
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
    const Settings settings = bench_settings(request);
    return run_model(settings, nullptr, request.sequence);
}

Settings bench_settings(const BenchRequest& request) {
    std::ranges::for_each(request.overrides, refuse_doubled);
    Settings settings = read_settings("", request.overrides);
    if (settings.model.from.empty() && settings.model.shape.family.empty()) {
        settings.model.preset = request.model;
    }
    const int64_t positions = run_model(settings, nullptr, request.sequence)->positions();
    if (request.sequence > positions) {
        throw Error(cat("--sequence ", request.sequence, ": ", name_of(settings.model), " has only ", positions,
                        " positions. Give at most that."));
    }
    settings.data.order = SampleOrder::Kind::sequential;
    settings.data.sequence_length = request.sequence;
    settings.compute.device = request.device;
    settings.window.samples = request.samples;
    settings.window.tokens = 0;
    if (settings.window.grain_samples == 0) {
        settings.window.grain_samples = default_grain_samples(settings.compute, request.sequence);
    }
    const Window window{.samples = request.samples, .grain_samples = settings.window.grain_samples};
    const int64_t threads = request.threads > 0 ? request.threads : this_machine().processors;
    const int64_t usual = default_micro_batch_grains(settings, request.sequence, static_cast<int>(threads));
    const bool is_open = !request.recompute && request.micro_batch == 0;  // as a run's plan
    settings.window.micro_batch_grains =
        is_open ? 0 : std::min(request.micro_batch > 0 ? request.micro_batch : usual, window.grains());
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
    const Settings settings = bench_settings(request);
    const auto model = bench_model(request);
    const DeviceChoice device = device_of(settings.compute);
    Pool pool(static_cast<int>(request.threads));
    // A graph is recorded when something comes the second time, and one step may be one micro-batch.
    const int64_t unmeasured = is_gpu(settings) ? 2 : 1;
    const auto data =
        random_words(*model, settings, unmeasured + request.steps + (is_gpu(settings) ? kStepsAfterBursts + 1 : 0));
    const Loader loader(*data, SampleOrder(SampleOrder::Kind::sequential, kSeed, data->size()));
    const auto [plan, address_bytes, peak_bytes] = bench_plan(request, settings, model, pool.threads());
    Arena arena(make_backing(device, address_bytes), make_host_part(device, plan.host_bytes, {.pool = &pool}));
    arena.keep(plan.arena_bytes);
    arena.touch({.pool = &pool});
    const auto kernels = make_kernels(device, pool, arena);
    Engine engine(settings, model, request.sequence, *kernels, plan.choices);
    engine.rules.micro_batch_grains = plan.micro_batch_grains;
    rehearse(engine, request.sequence);
    initialize_weights(engine.model->parameters(), kSeed, engine.put_weights(), {.pool = &pool});
    engine.refresh_copy();

    const Window window{.samples = settings.window.samples, .grain_samples = settings.window.grain_samples};
    StepsMeasurement result{
        .steps = {},
        .work = work_of_step(plan, window.grains()),
        .rates = {},
        .lasting_rates = {},
        .undisturbed_seconds = 0,
        .window_tokens = settings.window.samples * request.sequence,
        .parameters = engine.model->parameters().elements(),
        .grain_samples = window.grain_samples,
        .grains = window.grains(),
        .micro_batches = (window.grains() + engine.rules.micro_batch_grains - 1) / engine.rules.micro_batch_grains,
        .planned_peak_bytes = peak_bytes,
        .plan = text_of(plan),
        .device = kernels->description(),
        .threads = pool.threads()};
    is_gpu(settings) ? run_on_gpu(request, device, pool, engine, loader, unmeasured, result)
                     : run_on_processor(request, pool, engine, loader, unmeasured, result);
    result.arena_bytes = arena.high_water_bytes();
    return result;
}

double measure_bandwidth(const BenchRequest& request) {
    const Settings settings = bench_settings(request);
    Pool pool(static_cast<int>(request.threads));
    return is_gpu(settings) ? DeviceCeilings(device_of(settings.compute), pool, request.dtype).copy_bandwidth()
                            : memory_bandwidth(pool);
}

}  // namespace accrue
