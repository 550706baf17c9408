#include "accrue/assess/advise_measure.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "accrue/assess/calibrate.h"
#include "accrue/assess/device_ceilings.h"
#include "accrue/base/bytes.h"
#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/kernels/timed/ceilings.h"
#include "accrue/kernels/timed/stopwatch.h"
#include "accrue/train/engine.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/step.h"

namespace accrue {
namespace {

constexpr int kTurns = 3;
// At least so many windows make a turn, and short ones more.
constexpr int kWindowsOfATurn = 2;
constexpr int kMostWindowsOfATurn = 20;
constexpr double kTurnSeconds = 0.25;
// After a first turn of each way, another one begins only within this time.
constexpr double kEnoughSeconds = 10;
// Addresses for windows of shorter samples, which first fit places differently. They cost no memory, but for a GPU's, where a
// plan counts as many.
constexpr double kSpareAddresses = 1.25;
constexpr double kSpareAddressesOfGpu = 1 + 1.0 / 32;
constexpr int kBursts = 5;
// What memory_bandwidth() takes, with room to spare; and the ceilings of a GPU.
constexpr int64_t kBandwidthBytes = int64_t{900} << 20;
constexpr int64_t kGpuCeilingBytes = int64_t{1200} << 20;

bool is_gpu(const RunInputs& inputs) {
    return device_of(inputs.settings.compute).name.kind == DeviceKind::cuda;
}

// Batches that are loaded once. What is in them later comes from another window, which no clock can tell.
class HeldBatches final : public PassedBatches {
public:
    using PassedBatches::PassedBatches;
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        const auto [place, is_new] = held_.try_emplace({grains.begin(), grains.end()});
        if (is_new) {
            place->second = data().load(window, grains);
        }
        return place->second;
    }

private:
    mutable std::map<std::vector<int64_t>, TokenBatch> held_;
};

SampleOrder order_of(const RunInputs& inputs) {
    return {inputs.settings.data.order, static_cast<uint64_t>(inputs.settings.run.seed), inputs.train->size()};
}

// A window's times, stretched to a window of another number of samples: only what is paid once stays.
WindowTimes stretched(WindowTimes times, double factor) {
    for (size_t part = 0; part < times.kernels.size(); ++part) {
        times.kernels[part] *= static_cast<Part>(part) == Part::optimizer ? 1 : factor;
    }
    times.tokens *= factor;
    times.rows *= factor;
    times.calls *= factor;
    times.ordering_seconds *= factor;
    times.data_wait_seconds *= factor;
    return times;
}

bool is_slower(const WindowTimes& a, const WindowTimes& b) {
    return a.tokens_per_second() < b.tokens_per_second();
}

// Counts what is computed.
class CountedBatches final : public PassedBatches {
public:
    using PassedBatches::PassedBatches;
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        TokenBatch batch = data().load(window, grains);
        rows_ += batch.rows();
        return batch;
    }
    [[nodiscard]] int64_t rows() const { return rows_; }

private:
    mutable int64_t rows_ = 0;
};

// A run with fresh weights, as the trainer would build it.
class MeasuredRun {
public:
    MeasuredRun(const RunInputs& inputs, Pool& pool, int64_t arena_bytes, const Plan& first, const MeasuredWorld& world)
        : arena_(make_backing(device_of(inputs.settings.compute),
                              static_cast<int64_t>(static_cast<double>(arena_bytes) *
                                                   (is_gpu(inputs) ? kSpareAddressesOfGpu : kSpareAddresses))),
                 make_host_part(device_of(inputs.settings.compute), first.host_bytes, {.pool = &pool})),
          kernels_(make_kernels(device_of(inputs.settings.compute), pool, arena_)),
          goes_on_(is_gpu(inputs)),
          engine_(inputs.settings, inputs.model, inputs.longest_sample(), *kernels_, first.choices),
          loader_(*inputs.train, order_of(inputs)),
          world_(world),
          source_(world.data != nullptr ? *world.data : loader_),
          held_(source_) {
        initialize_weights(engine_.model->parameters(), static_cast<uint64_t>(inputs.settings.run.seed),
                           engine_.put_weights());
        engine_.refresh_copy();
    }

    // The fastest of some windows, after one that is not measured: it finds the loader and the caches cold.
    WindowTimes turn(const MeasuredWay& way) {
        engine_.choose(way.plan.choices);
        engine_.rules.micro_batch_grains = way.plan.micro_batch_grains;
        arena_.keep(way.plan.arena_bytes);
        WindowSize size = engine_.rules.window;
        size.samples = way.samples;
        size.tokens = 0;
        const auto window_from = [this, size](const DataPosition& position) {
            return loader_.window_from(position, size);
        };
        const BatchSource& data = way.batches == MeasuredWay::Batches::held ? held_ : source_;
        const LoadAhead batches(data, window_from);
        (void)window(batches, window_from(engine_.state.position));
        if (goes_on_) {
            apart_ = watched_window(batches, window_from(engine_.state.position));
        }
        std::vector<WindowTimes> windows;
        const auto start = Clock::now();
        const auto is_enough = [&](int number) {
            return number >= kWindowsOfATurn && !windows.empty() && seconds_since(start) > kTurnSeconds;
        };
        for (int number = 0; number < kMostWindowsOfATurn && !is_enough(number); ++number) {
            const Window next = window_from(engine_.state.position);
            const WindowTimes times = window(batches, next);
            if (times.tokens > 0) {
                windows.push_back(stretched(times, way.window_samples / static_cast<double>(next.samples)));
            }
        }
        if (windows.empty()) {
            throw Error(cat(kMostWindowsOfATurn, " windows of ", size.samples,
                            " samples were measured, and none counts a token. Check the labels of the data."));
        }
        return *std::max_element(windows.begin(), windows.end(), is_slower);
    }

private:
    WindowTimes window(const BatchSource& data, const Window& window) {
        WindowTimes times = goes_on_ ? unwatched_window(data, window) : watched_window(data, window);
        if (world_.synchronise) {
            const auto start = Clock::now();
            times.synchronisation_bytes = static_cast<double>(world_.synchronise());
            times.synchronisation_seconds = seconds_since(start);
        }
        return times;
    }

    WindowTimes watched_window(const BatchSource& data, const Window& window) {
        Stopwatch watch(*kernels_);
        WindowTimes times = unwatched_window(data, window);
        const double all = times.ordering_seconds;
        times.kernels = watch.seconds();
        times.calls = static_cast<double>(watch.calls());
        times.ordering_seconds = std::max(0.0, all - kernel_seconds(times));
        return times;
    }

    // All of its time counts as ordering, unless it is known from a window before, in which each operation was waited for, how the
    // time is shared out. That one took longer: what it has too much is taken from all parts alike.
    WindowTimes unwatched_window(const BatchSource& data, const Window& window) {
        const StopFlag never{false};
        const CountedBatches batches(data);
        const auto report = run_step(engine_, batches, window, never);
        WindowTimes times{.tokens = static_cast<double>(report->tokens)};
        times.rows = static_cast<double>(batches.rows());
        times.data_wait_seconds = report->data_wait_seconds;
        times.ordering_seconds = report->seconds - report->data_wait_seconds;
        if (apart_ && apart_->rows > 0) {
            const double rows = times.rows / apart_->rows;
            times.calls = apart_->calls * rows;
            const double share = std::min(rows, times.ordering_seconds / kernel_seconds(*apart_));
            for (size_t part = 0; part < times.kernels.size(); ++part) {
                times.kernels[part] = apart_->kernels[part] * share;
            }
            times.ordering_seconds = std::max(0.0, times.ordering_seconds - kernel_seconds(times));
        }
        return times;
    }

    static double kernel_seconds(const WindowTimes& times) {
        return std::accumulate(times.kernels.begin(), times.kernels.end(), 0.0);
    }

    Arena arena_;
    std::unique_ptr<Kernels> kernels_;
    bool
        goes_on_;  // when an operation returns: the device is late, and its operations are watched in windows of their own
    std::optional<WindowTimes> apart_;
    Engine engine_;
    Loader loader_;
    const MeasuredWorld& world_;
    const BatchSource& source_;
    HeldBatches held_;
};

Ceilings ceilings_of_gpu(const RunInputs& inputs, Pool& pool, int64_t room) {
    if (room < kGpuCeilingBytes) {
        throw Error(cat("to measure what the GPU could do takes ", format_bytes(kGpuCeilingBytes),
                        " of its memory, and there are ", format_bytes(std::max<int64_t>(0, room)),
                        ". Give compute.memory more, or free some of the card's memory."));
    }
    DeviceCeilings device(device_of(inputs.settings.compute), pool, inputs.settings.compute.dtype);
    Ceilings ceilings;
    for (int burst = 0; burst < kBursts; ++burst) {
        ceilings.flops = std::max(ceilings.flops, device.product_rate());
    }
    ceilings.bytes = device.copy_bandwidth();
    return ceilings;
}

Ceilings measure_ceilings(const RunInputs& inputs, Pool& pool, int64_t room) {
    if (is_gpu(inputs)) {
        return ceilings_of_gpu(inputs, pool, room);
    }
    const DType dtype = inputs.settings.compute.dtype;
    const auto set = cpu::instruction_set_named(inputs.settings.compute.instruction_set);
    Ceilings ceilings;
    for (int burst = 0; burst < kBursts; ++burst) {
        ceilings.flops = std::max(ceilings.flops, multiply_add_rate(pool, dtype, set));
    }
    ceilings.bytes = room > kBandwidthBytes ? memory_bandwidth(pool) : 0;
    return ceilings;
}

}  // namespace

std::vector<MeasuredTimes> measure_ways(const RunInputs& inputs, Pool& pool, const std::vector<MeasuredWay>& ways,
                                        const MeasuredWorld& world) {
    int64_t arena_bytes = 0;
    for (const MeasuredWay& way : ways) {
        arena_bytes = std::max(arena_bytes, way.plan.arena_bytes);
    }
    MeasuredRun run(inputs, pool, arena_bytes, ways.front().plan, world);
    std::vector<MeasuredTimes> result(ways.size());
    const auto start = Clock::now();
    for (int turn = 0; turn < kTurns && (turn == 0 || seconds_since(start) < kEnoughSeconds); ++turn) {
        for (size_t way = 0; way < ways.size(); ++way) {
            const WindowTimes times = run.turn(ways[way]);
            MeasuredTimes& measured = result[way];
            measured.tokens_per_second.push_back(times.tokens_per_second());
            measured.fastest = turn == 0 || is_slower(measured.fastest, times) ? times : measured.fastest;
        }
    }
    return result;
}

Instruments real_instruments() {
    return {.rates = measure_rates,
            .windows = [](const RunInputs& inputs, Pool& pool,
                          const std::vector<MeasuredWay>& ways) { return measure_ways(inputs, pool, ways, {}); },
            .ceilings = measure_ceilings};
}

}  // namespace accrue
