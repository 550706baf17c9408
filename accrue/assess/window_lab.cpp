#include "accrue/assess/window_lab.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/initial_weights.h"
#include "accrue/train/state.h"

namespace accrue {
namespace {

// Sets the flag when half of the window's grains are loaded, so that the step stops before the next micro-batch.
class StopsHalfWay final : public PassedBatches {
public:
    StopsHalfWay(const BatchSource& data, const Engine& engine, StopFlag& stop)
        : PassedBatches(data), engine_(engine), stop_(stop) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        // Before the window is open, a step looks at one grain to find the first units.
        if (engine_.state.open && grains.back() + 1 >= window.grains() / 2) {
            stop_ = true;
        }
        return data().load(window, grains);
    }

private:
    const Engine& engine_;
    StopFlag& stop_;
};

// The norm of a moment; 0 where it is not kept in fp32.
double norm_of(Kernels& kernels, const StoredMoment& moment) {
    double squares = 0;
    for (const StoredMoment::Part& part : moment.parts) {
        if (part.dtype == "F32" && part.suffix.empty()) {
            squares += squares_of(source_of(kernels, part.device_bytes));
        }
    }
    return std::sqrt(squares);
}

std::string checksum_of_state(Engine& engine) {
    Hasher hasher;
    const std::string weights = engine.weights_hash();
    hasher.add(std::as_bytes(std::span(weights)));
    for (const StoredMoment& moment : engine.optimizer->moments()) {
        for (const StoredMoment::Part& part : moment.parts) {
            source_of(engine.kernels, part.device_bytes)
                .for_pieces(int64_t{1} << 20, [&](std::span<const std::byte> piece) { hasher.add(piece); });
        }
    }
    return hasher.digest();
}

}  // namespace

ProgramUnderTest real_program() {
    return {.kernels = make_kernels,
            .step = [](Engine& engine, const BatchSource& data, const Window& window, const StopFlag& stop) {
                return run_step(engine, data, window, stop);
            }};
}

// Everything that a way of computing needs anew.
struct WindowLab::Rig {
    Rig(const RunInputs& inputs, const ProgramUnderTest& program, const DeviceChoice& device, int threads,
        const Choices& choices, Arena& arena)
        : pool(threads),
          kernels(program.kernels(device, pool, arena)),
          engine(inputs.settings, inputs.model, inputs.longest_sample(), *kernels, choices) {}

    Pool pool;
    std::unique_ptr<Kernels> kernels;
    Engine engine;
};

WindowLab::WindowLab(const RunInputs& inputs, const WindowRequest& request, ProgramUnderTest program)
    : inputs_(inputs),
      program_(std::move(program)),
      checkpoint_(request.checkpoint),
      definition_(definition_of(inputs, inputs.model->parameters())),
      loader_(*inputs.train, sample_order_of(inputs.settings, inputs.train->size())),
      threads_(Pool(static_cast<int>(inputs.settings.compute.threads)).threads()) {
    find_window(request);
    memory_.emplace(inputs_, window_, threads_, memory_of_device(device_of(inputs_.settings.compute).name));
    const DeviceChoice device = device_of(inputs_.settings.compute);
    arena_ = std::make_unique<Arena>(make_backing(device, memory_->address_bytes()),
                                     make_host_part(device, memory_->host_bytes()));
    arena_->keep(memory_->arena_bytes());
    rebuild({});
}

WindowLab::~WindowLab() = default;

void WindowLab::find_window(const WindowRequest& request) {
    const WindowSize size = window_size_of(inputs_.settings.window);
    CheckpointPlace place = checkpoint_ ? place_of_checkpoint(*checkpoint_) : CheckpointPlace{};
    if (request.step > 0 && place.step >= request.step) {
        place = {};
    }
    while (place.step + 1 < request.step) {
        place = {.step = place.step + 1, .position = loader_.window_from(place.position, size).next()};
    }
    step_ = place.step + 1;
    window_ = loader_.window_from(place.position, size);
    if (request.most_grains > 0 && request.most_grains < window_.grains()) {
        window_.samples = request.most_grains * window_.grain_samples;
        window_.ends_epoch = false;
        window_.is_short = false;
    }
    for (int64_t grain = 0; grain < window_.grains(); ++grain) {
        int64_t& tokens = grain_tokens_.emplace_back(0);
        for (const int64_t sample : loader_.samples_of(window_, grain)) {
            tokens += sample_tokens_.emplace_back(inputs_.train->weight(sample));
        }
    }
    if (std::accumulate(grain_tokens_.begin(), grain_tokens_.end(), int64_t{0}) == 0) {
        throw Error(cat("the window of step ", step_,
                        " counts no token, so there is no gradient to compare. Take another with --step."));
    }
}

void WindowLab::rebuild(const Way& way) {
    rig_.reset();
    DeviceChoice device = device_of(inputs_.settings.compute);
    device.graphs = way.graphs;
    rig_ = std::make_unique<Rig>(inputs_, program_, device, way.threads > 0 ? way.threads : threads_,
                                 way.choices.value_or(memory_->choices()), *arena_);
    Engine::Rules& rules = rig_->engine.rules;
    rules.micro_batch_grains =
        way.micro_batch_grains > 0 ? way.micro_batch_grains : std::min(rules.micro_batch_grains, most_at_once());
}

Engine& WindowLab::engine() {
    return rig_->engine;
}

std::string WindowLab::device() const {
    return rig_->kernels->description();
}

void WindowLab::begin(const Way& way) {
    rebuild(way);
    if (checkpoint_) {
        load_state(engine(), definition_, *checkpoint_);
    } else {
        load_initial_weights(engine(), inputs_.settings);
    }
    engine().state.step = step_ - 1;
    engine().state.position = window_.first;
    engine().state.open.reset();
}

void WindowLab::add(const Window& window, const std::vector<int64_t>& grains, int64_t at_once, GradientSink& sink) {
    for (const MicroBatch& micro_batch : cut(grains, at_once)) {
        engine().model->forward_backward(loader_.load(window, micro_batch.grains), engine().weights_to_read(), sink);
    }
}

GradientSum WindowLab::make_sum(SumKind kind) {
    const auto tensors = engine().sum.tensors();
    return {std::vector<SumTensor>(tensors.begin(), tensors.end()), engine().model->parameters().gradient_elements,
            kind, engine().kernels, engine().sum.memory()};
}

Computed WindowLab::finished(const StepReport& report, double seconds) {
    const auto moments = engine().optimizer->moments();
    return {.sums = checksum_of(engine().sum),
            .state = checksum_of_state(engine()),
            .step = report,
            .ledger = engine().sum.ledger(),
            .first_moment_norm = moments.empty() ? 0.0 : norm_of(engine().kernels, moments.front()),
            .seconds = seconds};
}

StepReport WindowLab::finish_step() {
    const StopFlag never{false};
    auto report = program_.step(engine(), loader_, window_, never);
    if (!report) {
        throw Error("a step ended before its window was complete, though nothing told it to stop.");
    }
    return *std::move(report);
}

Computed WindowLab::by_step(const Way& way) {
    begin(way);
    const auto start = Clock::now();
    const StepReport report = finish_step();
    const double seconds = seconds_since(start);
    if (units_.empty()) {
        const GradientSum& sum = engine().sum;
        units_ = sum.kind() == SumKind::exact ? sum.units() : Units::first(sum.ledger().largest());
    }
    return finished(report, seconds);
}

void WindowLab::open_window() {
    const bool needs_tokens = engine().rules.need_tokens_of(window_);
    WindowRecord record =
        engine().record_of(window_, needs_tokens ? std::optional(loader_.counted_tokens(window_)) : std::nullopt);
    record.units = units_;
    engine().open(std::move(record));
}

Computed WindowLab::in_order(const Way& way, const std::vector<int64_t>& order) {
    begin(way);
    const auto start = Clock::now();
    open_window();
    add(window_, order, engine().rules.micro_batch_grains, engine().sum);
    const StepReport report = finish_step();
    return finished(report, seconds_since(start));
}

Computed WindowLab::by_workers(const Way& way, int64_t workers) {
    begin(way);
    const auto start = Clock::now();
    open_window();
    for (int64_t worker = 0; worker < workers; ++worker) {
        std::vector<int64_t> own;
        for (int64_t grain = worker; grain < grains(); grain += workers) {
            own.push_back(grain);
        }
        GradientSum sum = make_sum(engine().sum.kind());
        sum.open(grains(), units_, 0, engine().state.loss_scale.value);
        add(window_, own, engine().rules.micro_batch_grains, sum);
        engine().sum.add(sum);
    }
    const StepReport report = finish_step();
    return finished(report, seconds_since(start));
}

Computed WindowLab::resumed(const Way& before, const Way& after) {
    begin(before);
    const auto start = Clock::now();
    const TemporaryFolder folder;
    StopFlag stop{false};
    const StopsHalfWay half(loader_, engine(), stop);
    if (program_.step(engine(), half, window_, stop)) {
        throw Error("a step that was told to stop half way went on to its end.");
    }
    save_state(engine(), definition_, folder.path());
    rebuild(after);
    load_state(engine(), definition_, checkpoint_path(folder.path(), step_ - 1));
    const StepReport report = finish_step();
    return finished(report, seconds_since(start));
}

}  // namespace accrue
