// Whole optimizer steps on a GPU, in many cuts of the same windows: tokens a second, memory, and a hash of the weights, which
// all cuts of one grain must share.
//     accrue_bench_gpu_steps --model gpt2-124m --samples 64 --grain 8 --micro-batch 8 --steps 6
#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/base/random.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/timed/stopwatch.h"
#include "accrue/model/families.h"
#include "accrue/train/engine.h"
#include "accrue/train/inputs.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/loader.h"
#include "accrue/train/planner.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/step.h"

namespace {

using namespace accrue;

struct Request {
    std::string model = "gpt2-124m";
    std::string dtype = "bf16";
    std::string sums = "exact";
    std::string recompute = "nothing";
    std::string moments = "fp32";
    std::string host_state = "none";
    int64_t sequence = 1024;
    int64_t samples = 64;      // of a window
    int64_t grain = 8;         // samples
    int64_t micro_batch = 8;   // samples
    int64_t waiting = 8;       // grains
    int64_t steps = 5;         // measured, after two that are not
    int64_t arena_gib = 100;
    bool parts = false;
    bool hash = true;  // of the weights; without it the last thing that the GPU does is a step
};

Settings settings_of(const Request& request) {
    Settings settings;
    settings.model.preset = request.model;
    settings.data.order = SampleOrder::Kind::sequential;
    settings.data.sequence_length = request.sequence;
    settings.window.samples = request.samples;
    settings.window.grain_samples = request.grain;
    settings.window.micro_batch_grains = std::max<int64_t>(1, request.micro_batch / request.grain);
    settings.schedule.kind = Schedule::Kind::constant;
    settings.schedule.warmup_steps = 0;
    settings.optimizer.moments = value_of_word<MomentFormat>(request.moments).value();
    settings.compute.dtype = value_of_word<DType>(request.dtype).value();
    settings.compute.sums = value_of_word<SumKind>(request.sums).value();
    settings.compute.host_state = value_of_word<HostState>(request.host_state).value();
    settings.compute.recompute = value_of_word<Recompute>(request.recompute).value();
    return settings;
}

std::unique_ptr<Dataset> random_words(const ModelSpec& model, int64_t samples, int64_t length) {
    std::vector<int32_t> tokens(static_cast<size_t>(samples * length + 1));
    for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<int32_t>(mix(1, i) % static_cast<uint64_t>(model.vocabulary()));
    }
    return dataset_of_tokens(std::move(tokens), length, "random words");
}

void print_parts(const Stopwatch& watch) {
    for (int64_t part = 0; part < kParts; ++part) {
        fmt::print("    {:<17} {:8.2f} ms\n", name_of(static_cast<Part>(part)),
                   1000 * watch.seconds()[static_cast<size_t>(part)]);
    }
}

int run(const Request& request) {
    const Settings settings = settings_of(request);
    const auto model = known_families().preset(request.model);
    Pool pool(4);
    const auto data = random_words(*model, request.samples * (request.steps + 4), request.sequence);
    const Loader loader(*data, SampleOrder(SampleOrder::Kind::sequential, 1, data->size()));
    Choices choices = choices_of(settings, model->blocks());
    choices.waiting_grains = request.waiting;
    const DeviceChoice gpu{.name = DeviceKind::cuda};
    const ArenaPlan plan = plan_arena(settings, model, request.sequence, pool.threads(), choices);
    Arena arena(make_backing(gpu, request.arena_gib << 30), make_host_part(gpu, plan.host_bytes, {.pool = &pool}));
    const auto kernels = make_cuda_kernels(0, arena);
    Engine engine(settings, model, request.sequence, *kernels, choices);
    initialize_weights(engine.model->parameters(), 1, engine.put_weights(), {.pool = &pool});
    engine.refresh_copy();
    LoadAhead ahead(loader,
                    [&](const DataPosition& position) { return loader.window_from(position, engine.rules.window); });
    const StopFlag never{false};
    const auto step = [&] {
        const auto report =
            run_step(engine, ahead, loader.window_from(engine.state.position, engine.rules.window), never);
        return report.value();
    };
    std::vector<double> seconds;
    double loss = 0;
    double host = 0;  // of the last step: what the host did while it put its grains on the way
    int64_t replays = 0;
    for (int64_t i = 0; i < request.steps + 2; ++i) {
        const StepReport report = step();
        if (i == 0) {
            loss = report.loss.value_or(0);
        }
        replays += report.replays;
        host = report.grain_seconds_mean * static_cast<double>((request.samples + request.grain - 1) / request.grain);
        if (report.skipped) {
            fmt::print("skipped: {}\n", report.skip_reason);
        }
        if (i >= 2) {
            seconds.push_back(report.seconds);
        }
    }
    const std::string hash = request.hash ? engine.weights_hash() : "not hashed";
    std::ranges::sort(seconds);
    const double median = seconds[seconds.size() / 2];
    const double tokens = static_cast<double>(request.samples * request.sequence);
    fmt::print("{} {} {} sums, {}, moments {}, host state {}: micro-batch {} grain {} waiting {}: {:9.0f} tokens/s, {:8.3f} ms a micro-batch, "
               "best {:8.1f} worst {:8.1f} ms a window, host {:6.1f} ms, arena {:6.2f} GiB, loss {:.5f}, replays {}, weights {}\n",
               request.model, request.dtype, request.sums, request.recompute, request.moments, request.host_state, request.micro_batch,
               request.grain, request.waiting, tokens / median,
               1000 * median * static_cast<double>(request.micro_batch) / static_cast<double>(request.samples),
               1000 * seconds.front(), 1000 * seconds.back(), 1000 * host,
               static_cast<double>(arena.high_water_bytes()) / 0x1p30, loss, replays, hash.substr(0, 16));
    fmt::print("    {}, {}\n", kernels->description(), kernels->numerics());
    if (request.parts) {
        Stopwatch watch(*kernels);
        (void)step();
        print_parts(watch);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Request request;
    CLI::App app("whole optimizer steps on a GPU");
    app.add_option("--model", request.model);
    app.add_option("--dtype", request.dtype);
    app.add_option("--sums", request.sums);
    app.add_option("--recompute", request.recompute);
    app.add_option("--moments", request.moments);
    app.add_option("--host-state", request.host_state);
    app.add_option("--sequence", request.sequence);
    app.add_option("--samples", request.samples);
    app.add_option("--grain", request.grain);
    app.add_option("--micro-batch", request.micro_batch);
    app.add_option("--waiting", request.waiting);
    app.add_option("--steps", request.steps);
    app.add_option("--arena", request.arena_gib);
    app.add_flag("--parts", request.parts);
    app.add_flag("--hash,!--no-hash", request.hash);
    CLI11_PARSE(app, argc, argv);
    try {
        return run(request);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}
