#include "accrue/train/planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "accrue/base/error.h"
#include "accrue/kernels/dry/dry_kernels.h"
#include "accrue/train/engine.h"
#include "accrue/train/open_window.h"
#include "accrue/train/step.h"

namespace accrue {
namespace {

// Blocks change from kept to recomputed in so many steps: each is a dry run, and finer ones save little.
constexpr int64_t kMixtures = 12;
// Where gradients of grains take more than this while they wait, a window must be so much faster, or a run does without.
constexpr int64_t kMemoryForAnyGain = int64_t{4} << 30;
constexpr double kGainOfWaiting = 1.045;
constexpr std::array<int64_t, 3> kLossRows = {Choices::kLossRows, 128, 32};
// Logits in the place of their gradients take nothing, however many rows they are.
constexpr std::array<int64_t, 1> kLossRowsInPlace = {Choices::kLossRows};

double seconds_of(const Work& work, double flops_rate, double bytes_rate) {
    return (work.flops > 0 ? work.flops / flops_rate : 0) + work.bytes / bytes_rate;
}

std::vector<Recompute> mixed(int64_t count, int64_t first_blocks, Recompute first, Recompute rest) {
    std::vector<Recompute> blocks(static_cast<size_t>(count), rest);
    std::fill_n(blocks.begin(), first_blocks, first);
    return blocks;
}

// Grains whose gradients are added in one pass.
double grains_together(const Plan& plan, const DeviceTraits& traits) {
    const int64_t at_once = std::min(plan.micro_batch_grains, traits.most_waiting_grains);
    return static_cast<double>(std::max<int64_t>({1, at_once, plan.choices.waiting_grains}));
}

}  // namespace

// A run that computes nothing: what is chosen for it shows in its arena and its counts.
struct Planner::Dry {
    Dry(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample, int threads,
        const StateSharing& sharing)
        : kernels(arena, make_workspace(device_of(settings.compute), threads)),
          of_device(arena.bytes_in_use()),
          engine(settings, model, longest_sample, kernels, choices_of(settings, model->blocks()), sharing),
          samples(longest_sample),
          units(Units::first(std::vector<float>(engine.sum.tensors().size(), 0.0F))),
          tables(tables_of(*model, longest_sample, device_of(settings.compute), threads)) {}

    static int64_t tables_of(const ModelSpec& model, int64_t longest_sample, const DeviceChoice& device, int threads) {
        Arena arena = Arena::dry();
        DryKernels kernels(arena, make_workspace(device, threads));
        const int64_t before = arena.bytes_in_use();
        const auto alone = model.make({.longest_sample = longest_sample}, kernels);
        return arena.bytes_in_use() - before;
    }

    // Of the micro-batch that ran last.
    [[nodiscard]] ArenaParts parts();

    Arena arena = Arena::dry();
    DryKernels kernels;
    int64_t of_device;  // what it keeps for itself
    Engine engine;
    LongestSamples samples;
    Units units;
    int64_t tables;
};

ArenaParts Planner::Dry::parts() {
    const DryKernels::ArenaProfile& profile = kernels.arena_profile();
    const auto bytes_in = [](const auto& view) { return view.elements() * bytes_of(view.dtype); };
    const int64_t resident = arena.bytes_in_use();
    const int64_t state = resident + arena.on_host().bytes_in_use();
    ArenaParts parts{.weights = bytes_in(AnyView(engine.weights.master)) + bytes_in(AnyView(engine.weights.kept)),
                     .copy = bytes_in(engine.weights.copy),
                     .sums = engine.sum.source().size(),
                     .moments = 0,
                     .waiting = engine.sum.bytes_beside(),
                     .tables = tables,
                     .device = of_device,
                     .blocks = {},
                     .batch = 0,
                     .loss = profile.at_loss_peak - profile.before_loss,
                     .workspace = profile.largest_workspace};
    parts.moments = state - parts.weights - parts.copy - parts.sums - parts.waiting - parts.tables - parts.device;
    // Attention takes the same for itself in each block, so that what grows from one to the next is what is kept.
    for (size_t block = 0; block + 1 < profile.at_attention.size(); ++block) {
        parts.blocks.push_back(profile.at_attention[block + 1] - profile.at_attention[block]);
    }
    const int64_t before_loss = std::max<int64_t>(0, profile.before_loss - resident);
    if (!profile.at_attention.empty()) {
        parts.blocks.push_back(parts.blocks.empty() ? before_loss : parts.blocks.back());
    }
    parts.batch = before_loss - std::accumulate(parts.blocks.begin(), parts.blocks.end(), int64_t{0});
    return parts;
}

Planner::Planner(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                 int threads, const StateSharing& sharing)
    : dry_(std::make_unique<Dry>(settings, model, longest_sample, threads, sharing)),
      settings_(settings),
      longest_sample_(longest_sample),
      blocks_(model->blocks()),
      threads_(threads) {
    const auto& window = settings.window;
    const auto samples =
        static_cast<double>(window.tokens > 0 ? (window.tokens + longest_sample - 1) / longest_sample : window.samples);
    window_grains_ = std::ceil(samples / static_cast<double>(window.grain_samples));
    window_tokens_ = window.tokens > 0 ? window.tokens : window.samples * longest_sample;
}

Planner::~Planner() = default;

DeviceName Planner::device() const {
    return device_of(settings_.compute).name;
}

const std::shared_ptr<const ModelSpec>& Planner::model() const {
    return dry_->engine.spec;
}

Plan Planner::plan_of(const Choices& choices, int64_t micro_batch_grains) {
    Engine& engine = dry_->engine;
    Arena& arena = dry_->arena;
    // As in an engine that is made with these choices: what it would take first lies first.
    engine.choose({.blocks = choices.blocks, .weight_copy = Choices::WeightCopy::converted_per_tile});
    engine.choose(choices);
    engine.rules.micro_batch_grains = micro_batch_grains;
    arena.restart_high_water();
    Plan plan;
    plan.choices = choices;
    plan.micro_batch_grains = micro_batch_grains;
    plan.resident_bytes = arena.high_water_bytes();
    plan.host_bytes = arena.on_host().high_water_bytes();

    // One micro-batch says all about memory: the next one takes the same places.
    const int64_t grain_samples = settings_.window.grain_samples;
    const Window window{.samples = micro_batch_grains * grain_samples, .grain_samples = grain_samples};
    const StopFlag never{false};
    engine.state = {.position = {}, .units = dry_->units};
    dry_->kernels.restart();
    (void)run_step(engine, dry_->samples, window, never);
    plan.work = dry_->kernels.work();
    plan.parts = dry_->parts();
    note_common_adds(plan);
    note_bus(plan);

    // A run's first window measures its first grain alone, which takes less; but not where gradients wait, because those of
    // that grain cannot.
    if (dry_->kernels.traits().most_waiting_grains > 0) {
        engine.state = {};
        open_window(engine, dry_->samples, window);
    }

    std::vector<int64_t> all(static_cast<size_t>(micro_batch_grains));
    std::iota(all.begin(), all.end(), 0);
    (void)engine.model->losses(dry_->samples.load(window, all), engine.weights_to_read());
    plan.arena_bytes = arena.high_water_bytes();
    return plan;
}

// Grains that are added in one pass read and write the sums once. Operations count each grain's.
void Planner::note_common_adds(Plan& plan) const {
    const double together = grains_together(plan, dry_->kernels.traits());
    const double saved = 2.0 * static_cast<double>(plan.parts.sums * plan.micro_batch_grains) * (1 - 1 / together);
    double& bytes = plan.work[static_cast<size_t>(Part::products_weight)].bytes;
    bytes = std::max(0.0, bytes - saved);
}

// A pass that adds reads and writes the sums. A window fills them with zeros, reads them for the norm and again for the
// update, which reads and writes the moments.
void Planner::note_bus(Plan& plan) const {
    const HostState state = settings_.compute.host_state;
    const auto sums = static_cast<double>(state == HostState::sums ? plan.parts.sums : 0);
    const auto moments = static_cast<double>(state != HostState::none ? plan.parts.moments : 0);
    plan.bus.micro_batch =
        sums * static_cast<double>(plan.micro_batch_grains) / grains_together(plan, dry_->kernels.traits());
    plan.bus.update = 3 * sums + moments;
}

// Gradients that wait take four bytes a parameter and grain. With small grains that spares a good part of the time; a grain of
// 8,192 tokens and more takes so long by itself that much memory is better left to others.
Plan Planner::unlimited() {
    Choices choices = choices_of(settings_, blocks_);
    const int64_t grains = micro_batch_choices().front();
    Plan plan = plan_of(choices, grains);
    choices.waiting_grains = waiting_choices().front();
    if (choices.waiting_grains == 0) {
        return plan;
    }
    Plan waiting = plan_of(choices, grains);
    if (waiting.arena_bytes - plan.arena_bytes <= kMemoryForAnyGain) {
        return waiting;
    }
    const Rates rates = Rates::typical(settings_, threads_);
    const double gain = plan.window_seconds(window_grains_, rates) / waiting.window_seconds(window_grains_, rates);
    return gain < kGainOfWaiting ? plan : waiting;
}

// All that the device gains by, a quarter of it, none; never more than the window has. Sums on the host are the dearer the
// fewer wait: half of it too.
std::vector<int64_t> Planner::waiting_choices() const {
    const DeviceTraits traits = dry_->kernels.traits();
    const bool may_wait = settings_.compute.sums == SumKind::exact;
    const int64_t most =
        may_wait ? std::min(traits.most_waiting_grains, std::max<int64_t>(1, static_cast<int64_t>(window_grains_))) : 0;
    const int64_t step = settings_.compute.host_state == HostState::sums ? 2 : 4;
    std::vector<int64_t> choices;
    for (int64_t grains = most; grains > 1; grains /= step) {
        choices.push_back(grains);
    }
    choices.push_back(0);
    return choices;
}

std::vector<int64_t> Planner::micro_batch_choices() const {
    const int64_t given = settings_.window.micro_batch_grains;
    const int64_t usual = std::min(default_micro_batch_grains(settings_, longest_sample_, threads_),
                                   std::max<int64_t>(1, static_cast<int64_t>(window_grains_)));
    std::vector<int64_t> choices = {given > 0 ? given : usual};
    while (given == 0 && choices.back() > 1) {
        choices.push_back(choices.back() / 2);
    }
    return choices;
}

// Early layers are recomputed first: when backward comes to them, the late ones have given back what they kept.
std::vector<std::vector<Recompute>> Planner::block_choices() const {
    if (settings_.compute.recompute) {
        return {choices_of(settings_, blocks_).blocks};
    }
    std::vector<std::vector<Recompute>> choices;
    const int64_t steps = std::min(kMixtures, blocks_);
    for (int64_t step = 0; step <= steps; ++step) {
        const int64_t first = step == 0 ? 0 : blocks_ * step / steps;
        choices.push_back(mixed(blocks_, first, Recompute::cheap, Recompute::nothing));
        if (step > 0) {
            choices.push_back(mixed(blocks_, first, Recompute::block, Recompute::nothing));
        }
        if (step > 0 && step < steps) {
            choices.push_back(mixed(blocks_, first, Recompute::block, Recompute::cheap));
        }
    }
    return choices;
}

std::vector<Choices> Planner::choices_beside_blocks() const {
    const std::span<const int64_t> loss_rows =
        dry_->kernels.traits().has_narrow_logits ? std::span<const int64_t>(kLossRowsInPlace) : kLossRows;
    std::vector<Choices::WeightCopy> copies = {Choices::WeightCopy::kept};
    if (settings_.compute.dtype != DType::fp32 && !dry_->engine.shares_master()) {
        copies.push_back(Choices::WeightCopy::converted_per_tile);
    }
    std::vector<Choices> all;
    for (const int64_t rows : loss_rows) {
        for (const Choices::WeightCopy copy : copies) {
            for (const int64_t waiting : waiting_choices()) {
                all.push_back({.blocks = {}, .loss_rows = rows, .weight_copy = copy, .waiting_grains = waiting});
            }
        }
    }
    return all;
}

std::vector<Plan> Planner::frontier(const Rates& rates) {
    std::vector<Plan> plans;
    for (const int64_t grains : micro_batch_choices()) {
        for (const auto& blocks : block_choices()) {
            for (Choices choices : choices_beside_blocks()) {
                choices.blocks = blocks;
                plans.push_back(plan_of(choices, grains));
            }
        }
    }
    const auto seconds = [&](const Plan& plan) { return plan.window_seconds(window_grains_, rates); };
    std::stable_sort(plans.begin(), plans.end(), [&](const Plan& a, const Plan& b) {
        return std::pair(seconds(a), a.arena_bytes) < std::pair(seconds(b), b.arena_bytes);
    });
    std::vector<Plan> best;
    for (Plan& plan : plans) {
        if (best.empty() || plan.arena_bytes < best.back().arena_bytes) {
            best.push_back(std::move(plan));
        }
    }
    return best;
}

int64_t Planner::record_bytes() const {
    constexpr int64_t kBytesOfRecord = sizeof(GrainRecord) + 8 + 4 + 1;  // in the ledger, and while it is saved
    return static_cast<int64_t>(window_grains_) * dry_->engine.model->parameters().count() * kBytesOfRecord;
}

int64_t Planner::host_bytes(int64_t micro_batch_grains) const {
    constexpr int64_t kBytesOfRow = 64;  // tokens, targets, positions and keys, now and one ahead; lookups
    // Of metrics, when the report is drawn; it takes no more for any number of steps.
    constexpr int64_t kBytesOfStep = 256;
    constexpr int64_t kMostStepsHeld = 16384;
    const int64_t rows = micro_batch_grains * settings_.window.grain_samples * longest_sample_;
    return record_bytes() + rows * kBytesOfRow + micro_batch_grains * model()->host_bytes_of_grain() +
           std::min(settings_.schedule.steps, kMostStepsHeld) * kBytesOfStep;
}

double Plan::window_seconds(double grains, const Rates& rates) const {
    double micro_batch = 0;
    double update = 0;
    for (size_t part = 0; part < work.size(); ++part) {
        (static_cast<Part>(part) == Part::optimizer ? update : micro_batch) +=
            seconds_of(work[part], rates.flops[part], rates.bytes[part]);
    }
    micro_batch += rates.micro_batch_seconds;
    if (rates.bus_bytes > 0) {
        micro_batch += bus.micro_batch / rates.bus_bytes;
        update += bus.update / rates.bus_bytes;
    }
    return micro_batch * grains / static_cast<double>(micro_batch_grains) + update;
}

int64_t Plan::blocks_with(Recompute recompute) const {
    return std::count(choices.blocks.begin(), choices.blocks.end(), recompute);
}

std::string text_of(const Plan& plan) {
    const int64_t block = plan.blocks_with(Recompute::block);
    const int64_t cheap = plan.blocks_with(Recompute::cheap);
    const size_t layers = plan.choices.blocks.size();
    std::string text;
    const auto add = [&text](const auto&... words) { text += cat(text.empty() ? "" : ", ", words...); };
    if (block > 0) {
        add(block, " of ", layers, " blocks recomputed");
    }
    if (cheap > 0) {
        add(cheap, " of ", layers, block > 0 ? " cheaply" : " blocks recomputed cheaply");
    }
    if (text.empty()) {
        add("nothing recomputed");
    }
    if (plan.choices.waiting_grains > 0) {
        add("gradients of ", plan.choices.waiting_grains, " grains added at once");
    }
    if (plan.choices.loss_rows != Choices::kLossRows) {
        add("the loss ", plan.choices.loss_rows, " rows at a time");
    }
    if (plan.choices.weight_copy == Choices::WeightCopy::converted_per_tile) {
        add("weights converted per tile");
    }
    return text;
}

std::string_view text_of(HostState state) {
    switch (state) {
        case HostState::moments:
            return "moments";
        case HostState::sums:
            return "sums and moments";
        default:
            return "";
    }
}

// Of one core of a server of 2023 with 512-bit vectors, as `accrue bench` finds them.
Rates Rates::typical(const Settings& settings, int threads) {
    if (device_of(settings.compute).name.kind == DeviceKind::cuda) {
        Rates rates;
        rates.flops.fill(settings.compute.dtype == DType::fp32 ? 30e12 : 500e12);
        rates.flops[static_cast<size_t>(Part::attention)] = settings.compute.dtype == DType::fp32 ? 10e12 : 200e12;
        rates.bytes.fill(2.5e12);
        rates.micro_batch_seconds = 1.2e-3;
        rates.bus_bytes = 50e9;
        return rates;
    }
    const double products = settings.compute.dtype == DType::bf16 ? 100e9 : 50e9;
    Rates rates;
    rates.flops.fill(products * threads);
    rates.flops[static_cast<size_t>(Part::attention)] = 40e9 * threads;
    rates.bytes.fill(8e9 * threads);
    return rates;
}

ArenaPlan plan_arena(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                     int threads) {
    return plan_arena(settings, model, longest_sample, threads, choices_of(settings, model->blocks()));
}

ArenaPlan plan_arena(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                     int threads, const Choices& choices) {
    Arena arena = Arena::dry();
    const auto kernels = make_dry_kernels(arena, device_of(settings.compute), threads);
    Engine engine(settings, model, longest_sample, *kernels, choices);
    ArenaPlan plan{.resident_bytes = arena.high_water_bytes(), .host_bytes = arena.on_host().high_water_bytes()};

    // One micro-batch says all about memory: the next one takes the same places.
    const LongestSamples samples(longest_sample);
    const int64_t grains = engine.rules.micro_batch_grains;
    const Window window{.samples = grains * settings.window.grain_samples,
                        .grain_samples = settings.window.grain_samples};
    const StopFlag never{false};
    (void)run_step(engine, samples, window, never);
    plan.flops = static_cast<int64_t>(kernels->work().flops());

    std::vector<int64_t> all(static_cast<size_t>(grains));
    std::iota(all.begin(), all.end(), 0);
    (void)engine.model->losses(samples.load(window, all), engine.weights_to_read());
    plan.peak_bytes = arena.high_water_bytes();
    return plan;
}

}  // namespace accrue
