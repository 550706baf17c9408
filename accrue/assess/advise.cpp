#include "accrue/assess/advise.h"

#include <algorithm>
#include <cmath>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/machine.h"
#include "accrue/train/engine.h"

namespace accrue {
namespace {

// Windows that are measured are cut off here; longer ones say little more.
constexpr double kWindowSeconds = 1.5;
// The most grains for a micro-batch that is only looked at: a dry run of each takes its time.
constexpr int64_t kMostGrains = 64;

std::vector<Recompute> all_blocks(const Plan& plan, Recompute recompute) {
    return std::vector<Recompute>(plan.choices.blocks.size(), recompute);
}

// Of each turn, sorted.
std::vector<double> gains_of(const std::vector<double>& before, const std::vector<double>& after) {
    std::vector<double> gains;
    for (size_t turn = 0; turn < std::min(before.size(), after.size()); ++turn) {
        gains.push_back(after[turn] / before[turn] - 1);
    }
    std::sort(gains.begin(), gains.end());
    return gains;
}

// One inquiry: what is known of the run, in the order it is found.
class Adviser {
public:
    Adviser(const RunInputs& inputs, const MemoryBound& machine, const AdviseRequest& request)
        : inputs_(inputs),
          machine_(machine),
          request_(request),
          pool_(static_cast<int>(inputs.settings.compute.threads)),
          planner_(inputs.settings, inputs.model, inputs.longest_sample(), pool_.threads()),
          base_(ProcessBase::measure(planner_.device())) {}

    Advice advise();

private:
    void choose_plan();
    void measure_present();
    void measure_ceilings();
    void divide_computing();
    void look_at_changes();
    void look_at_micro_batches();
    void look_at_recomputation();
    void look_at_threads();
    void look_at_windows();
    void look_at_whole_window();
    void try_change();

    [[nodiscard]] int64_t room() const { return advice_.budget.bytes - base_.held_bytes; }
    [[nodiscard]] bool fits(const Change& change) const { return change.peak_bytes <= advice_.budget.bytes; }
    // Whether it costs neither bits nor memory that is not there.
    [[nodiscard]] bool is_free(const Change& change) const {
        return change.result == Change::Result::same && fits(change);
    }
    [[nodiscard]] double plan_seconds(const Plan& plan, double window_factor, const Rates& rates) const {
        return plan.window_seconds(std::max(1.0, planner_.window_grains() * window_factor), rates);
    }
    [[nodiscard]] Change change_to(std::string text, Plan plan) const;
    void predict(Change& change, const Rates& rates) const;
    [[nodiscard]] bool is_aimed(const Change& change) const;
    [[nodiscard]] std::optional<Change> most_promising() const;
    [[nodiscard]] std::vector<MeasuredTimes> measure(Pool& pool, const std::vector<Change>& changes) const;
    [[nodiscard]] MeasuredWay way_of(const Change& change) const;

    const RunInputs& inputs_;
    const MemoryBound& machine_;
    const AdviseRequest& request_;
    Pool pool_;
    Planner planner_;
    ProcessBase base_;
    Plan unlimited_;
    Rates rates_;
    Advice advice_;
};

// As a run would, and with its errors.
void Adviser::choose_plan() {
    const PlanChoice chosen(settings_to_plan(inputs_), inputs_.model, inputs_.longest_sample(), pool_.threads(),
                            [this] { return machine_; });
    advice_.plan = chosen.plan();
    // A plan says nothing of blocks where all are kept.
    if (advice_.plan.choices.blocks.empty()) {
        advice_.plan.choices.blocks.assign(static_cast<size_t>(inputs_.model->blocks()), Recompute::nothing);
    }
    advice_.peak_bytes = chosen.peak_bytes();
    advice_.budget = budget_of(inputs_.settings, machine_);
    advice_.device = device_of(inputs_.settings.compute).name;
    advice_.threads = pool_.threads();
    advice_.window_grains = planner_.window_grains();
    advice_.optimizer = inputs_.settings.optimizer;
    const Settings::Window& window = inputs_.settings.window;
    advice_.window_samples =
        window.tokens > 0
            ? std::ceil(static_cast<double>(window.tokens) / static_cast<double>(inputs_.longest_sample()))
            : static_cast<double>(window.samples);
    unlimited_ = planner_.unlimited();
    rates_ = request_.instruments.rates(inputs_, pool_, room());
    const double best = plan_seconds(unlimited_, 1, rates_);
    advice_.lost_to_memory = std::max(0.0, 1 - best / plan_seconds(advice_.plan, 1, rates_));
}

MeasuredWay Adviser::way_of(const Change& change) const {
    const double samples = std::max(1.0, std::round(advice_.window_samples * change.window_factor));
    const auto micro_batch =
        static_cast<double>(change.plan.micro_batch_grains * inputs_.settings.window.grain_samples);
    const double window_seconds = plan_seconds(change.plan, change.window_factor, rates_);
    const double micro_batches = std::max(1.0, std::floor(kWindowSeconds / window_seconds * samples / micro_batch));
    return {.plan = change.plan,
            .samples = static_cast<int64_t>(std::min(samples, micro_batches * micro_batch)),
            .window_samples = samples,
            .batches = change.batches};
}

std::vector<MeasuredTimes> Adviser::measure(Pool& pool, const std::vector<Change>& changes) const {
    std::vector<MeasuredWay> ways;
    std::transform(changes.begin(), changes.end(), std::back_inserter(ways),
                   [this](const Change& change) { return way_of(change); });
    return request_.instruments.windows(inputs_, pool, ways);
}

Change Adviser::change_to(std::string text, Plan plan) const {
    Change change{.text = std::move(text)};
    change.peak_bytes = std::max(base_.peak_bytes, process_bytes(base_, planner_, plan));
    change.plan = std::move(plan);
    change.threads = pool_.threads();
    return change;
}

void Adviser::predict(Change& change, const Rates& rates) const {
    const double factor =
        plan_seconds(change.plan, change.window_factor, rates) / plan_seconds(advice_.plan, 1, rates_);
    WindowTimes now = advice_.times;
    if (change.batches == MeasuredWay::Batches::held) {
        now.data_wait_seconds = 0;
    }
    const double seconds =
        seconds_after({.compute = factor, .window = change.window_factor}, now, advice_.judgement.bound);
    change.tokens_per_second = now.tokens * change.window_factor / seconds;
}

void Adviser::measure_present() {
    const Change present = change_to("now", advice_.plan);
    advice_.measured_samples = way_of(present).samples;
    advice_.times = measure(pool_, {present}).front().fastest;
}

// Last, because the bandwidth takes more memory than many a run.
void Adviser::measure_ceilings() {
    advice_.ceilings = request_.instruments.ceilings(inputs_, pool_, room());
    if (advice_.ceilings.bytes <= 0) {
        const auto update = static_cast<size_t>(Part::optimizer);
        advice_.ceilings.bytes = advice_.plan.work[update].bytes / advice_.times.kernels[update];
    }
}

// The planned work is that of full samples; what ran may have been less.
void Adviser::divide_computing() {
    const int64_t planned_rows =
        advice_.plan.micro_batch_grains * inputs_.settings.window.grain_samples * inputs_.longest_sample();
    const double micro_batches = advice_.times.rows / static_cast<double>(planned_rows);
    WorkByPart work = advice_.plan.work;
    for (size_t part = 0; part < work.size(); ++part) {
        const double times = static_cast<Part>(part) == Part::optimizer ? 1 : micro_batches;
        work[part] = {.flops = times * work[part].flops, .bytes = times * work[part].bytes};
        advice_.reached_flops += work[part].flops / advice_.times.compute_seconds();
        advice_.reached_bytes += work[part].bytes / advice_.times.compute_seconds();
    }
    advice_.split = split_compute(advice_.times, work, advice_.ceilings);
}

void Adviser::look_at_micro_batches() {
    const int64_t now = advice_.plan.micro_batch_grains;
    const auto most = std::min(kMostGrains, static_cast<int64_t>(advice_.window_grains));
    std::vector<int64_t> others = {now / 2, std::min(2 * now, most), most};
    others.erase(std::unique(others.begin(), others.end()), others.end());
    for (const int64_t grains : others) {
        if (grains > 0 && grains != now) {
            advice_.changes.push_back(
                change_to(cat("window.micro_batch_grains = ", grains), planner_.plan_of(advice_.plan.choices, grains)));
        }
    }
}

void Adviser::look_at_recomputation() {
    const Plan& now = advice_.plan;
    for (const auto& [word, recompute] : words_for(Recompute())) {
        Choices choices = now.choices;
        choices.blocks = all_blocks(now, recompute);
        if (recompute == Recompute::nothing) {
            choices.loss_rows = Choices::kLossRows;
            choices.weight_copy = Choices::WeightCopy::kept;
        }
        if (choices == now.choices) {
            continue;
        }
        Change change =
            change_to(cat("compute.recompute = \"", word, "\""), planner_.plan_of(choices, now.micro_batch_grains));
        if (fits(change)) {
            advice_.changes.push_back(std::move(change));
        }
    }
    if (advice_.lost_to_memory > 0) {
        Change change = change_to("", unlimited_);
        change.raises_memory = true;
        change.text = cat("compute.memory = \"", (change.peak_bytes >> 20) + 1, "MiB\"");
        advice_.changes.push_back(std::move(change));
    }
}

void Adviser::look_at_threads() {
    const int now = pool_.threads();
    const int all = request_.processors > 0 ? request_.processors : static_cast<int>(this_machine().processors);
    for (const int threads : {now / 2, all}) {
        if (threads < 1 || threads == now || device_of(inputs_.settings.compute).name.kind != DeviceKind::cpu) {
            continue;
        }
        // Each thread wants some memory for itself.
        Planner planner(settings_to_plan(inputs_), inputs_.model, inputs_.longest_sample(), threads);
        Plan plan = planner.plan_of(advice_.plan.choices, advice_.plan.micro_batch_grains);
        if (process_bytes(base_, planner, plan) > advice_.budget.bytes) {
            continue;
        }
        Pool pool(threads);
        Change change = change_to(cat("compute.threads = ", threads), std::move(plan));
        change.threads = threads;
        predict(change, request_.instruments.rates(inputs_, pool, room()));
        advice_.changes.push_back(std::move(change));
    }
}

void Adviser::look_at_windows() {
    for (const double factor : {0.5, 2.0}) {
        if (advice_.window_grains * factor < 1) {
            continue;
        }
        const auto grains = static_cast<int64_t>(advice_.window_grains * factor);
        Change change = change_to(factor < 1 ? "half the window" : "twice the window", advice_.plan);
        if (grains < change.plan.micro_batch_grains) {
            change.plan = planner_.plan_of(change.plan.choices, grains);
        }
        change.window_factor = factor;
        change.result = Change::Result::another;
        advice_.changes.push_back(std::move(change));
    }
}

void Adviser::look_at_whole_window() {
    const auto grains = static_cast<int64_t>(advice_.window_grains);
    const auto& changes = advice_.changes;
    const auto largest = std::max_element(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
        return a.plan.micro_batch_grains < b.plan.micro_batch_grains;
    });
    if (largest == changes.end() || largest->plan.micro_batch_grains <= advice_.plan.micro_batch_grains) {
        return;
    }
    // Activations grow in proportion, should this not be the whole window yet.
    const int64_t activations = largest->plan.arena_bytes - largest->plan.resident_bytes;
    advice_.whole = {
        .peak_bytes = largest->peak_bytes + activations * grains / largest->plan.micro_batch_grains - activations,
        .gain = largest->tokens_per_second / advice_.times.tokens_per_second() - 1};
}

void Adviser::look_at_changes() {
    look_at_micro_batches();
    look_at_recomputation();
    look_at_windows();
    for (Change& change : advice_.changes) {
        predict(change, rates_);
    }
    look_at_threads();
    if (advice_.judgement.bound == Bound::data) {
        Change change = change_to("batches already in memory", advice_.plan);
        change.batches = MeasuredWay::Batches::held;
        predict(change, rates_);
        advice_.changes.push_back(std::move(change));
    }
}

// Whether a change goes at what the run is bound by.
bool Adviser::is_aimed(const Change& change) const {
    switch (advice_.judgement.bound) {
        case Bound::data:
            return change.batches == MeasuredWay::Batches::held;
        case Bound::network:
            return change.window_factor > 1;
        case Bound::memory_capacity:
            return change.raises_memory && change.peak_bytes <= machine_.bytes;
        case Bound::overhead:
            return is_free(change) && change.plan.micro_batch_grains > advice_.plan.micro_batch_grains;
        case Bound::compute:
        case Bound::memory_bandwidth:
            break;
    }
    return false;
}

// What is aimed at the bound, of several the largest micro-batch; else whatever costs no bit and fits.
std::optional<Change> Adviser::most_promising() const {
    std::optional<Change> aimed;
    std::optional<Change> best;
    for (const Change& change : advice_.changes) {
        if (is_aimed(change) && (!aimed || change.plan.micro_batch_grains > aimed->plan.micro_batch_grains)) {
            aimed = change;
        }
        if (is_free(change) && (!best || change.tokens_per_second > best->tokens_per_second)) {
            best = change;
        }
    }
    return aimed ? aimed : best;
}

void Adviser::try_change() {
    const std::optional<Change> change = most_promising();
    if (!change) {
        return;
    }
    const Change present = change_to("now", advice_.plan);
    std::vector<MeasuredTimes> measured;
    if (change->threads == pool_.threads()) {
        measured = measure(pool_, {present, *change});
    } else {
        Pool other(change->threads);
        measured = {measure(pool_, {present}).front(), measure(other, {*change}).front()};
    }
    const std::vector<double> gains = gains_of(measured[0].tokens_per_second, measured[1].tokens_per_second);
    advice_.trial = {.change = *change,
                     .predicted_gain = change->tokens_per_second / advice_.times.tokens_per_second() - 1,
                     .measured_gain = gains[(gains.size() - 1) / 2],
                     .least_gain = gains.front(),
                     .most_gain = gains.back(),
                     .tokens_per_second = measured[1].fastest.tokens_per_second(),
                     .present_tokens_per_second = measured[0].fastest.tokens_per_second()};
    const bool is_whole =
        change->window_factor == 1 && static_cast<double>(change->plan.micro_batch_grains) >= advice_.window_grains;
    if (advice_.whole && is_whole) {
        advice_.whole->gain = advice_.trial->measured_gain;
        advice_.whole->is_measured = true;
    }
}

Advice Adviser::advise() {
    choose_plan();
    measure_present();
    measure_ceilings();
    divide_computing();
    advice_.judgement = judge(advice_.times, advice_.split, advice_.lost_to_memory);
    look_at_changes();
    look_at_whole_window();
    try_change();
    advice_.window_facts = {.tokens = advice_.times.tokens,
                            .sample_tokens = advice_.times.tokens / advice_.window_samples,
                            .seconds = advice_.times.seconds(),
                            .fixed_seconds = advice_.times.fixed_seconds(),
                            .noise = request_.noise};
    advice_.window = advise_window(advice_.optimizer, advice_.window_samples, advice_.window_facts);
    return advice_;
}

}  // namespace

Advice find_advice(const RunInputs& inputs, const MemoryBound& machine, const AdviseRequest& request) {
    return Adviser(inputs, machine, request).advise();
}

}  // namespace accrue
