#include "accrue/train/step.h"

#include <algorithm>
#include <cmath>

#include "accrue/base/clock.h"
#include "accrue/dist/alone.h"
#include "accrue/train/open_window.h"

namespace accrue {
namespace {

// How long this process took for its own grains, replays included.
struct GrainTimes {
    double total = 0;
    double max = 0;
    double data_wait = 0;
    int64_t grains = 0;

    void add(int64_t count, double seconds, double wait) {
        total += seconds;
        max = std::max(max, seconds / static_cast<double>(count));
        data_wait += wait;
        grains += count;
    }
    void write_to(StepReport& report) const {
        report.grain_seconds_mean = total / static_cast<double>(std::max<int64_t>(1, grains));
        report.grain_seconds_max = max;
        report.data_wait_seconds = data_wait;
    }
};

// Adds the grains that are mine, micro-batch by micro-batch, until none is left for me or I am to stop.
Reducer::Wish add_my_grains(Engine& engine, Assignment& assignment, const BatchSource& data, const StopFlag& stop,
                            GrainTimes& times) {
    const Window& window = engine.state.open->window;
    const int64_t most = engine.rules.micro_batch_grains;
    assignment.begin(*engine.state.open, engine.sum.ledger());
    while (!stop) {
        const std::vector<int64_t> grains = assignment.next(most);
        if (grains.empty()) {
            return Reducer::Wish::go_on;
        }
        const auto start = Clock::now();
        const TokenBatch batch = data.load(window, grains);
        const double wait = seconds_since(start);
        data.announce(window, assignment.likely_next(most));  // loaded while these are computed
        engine.model->forward_backward(batch, engine.weights_to_read(), engine.sum);
        times.add(std::ssize(grains), seconds_since(start) - wait, wait);
    }
    return Reducer::Wish::stop;
}

// The window is not complete and somebody wants to stop: what there is of it goes to one keeper.
void leave_open(Engine& engine, Reducer& reducer) {
    if (reducer.gather(engine.sum) == Reducer::Role::other) {
        engine.open(*engine.state.open);
    }
}

// If the window's sums may not have fitted, begins it again with coarser units. Everybody decides by the same facts. A window
// with a bad value is skipped anyway.
bool must_replay(Engine& engine, const GrainLedger& everyone) {
    if (engine.sum.kind() != SumKind::exact || everyone.first_bad()) {
        return false;
    }
    WindowRecord record = *engine.state.open;
    const auto too_large = record.units.overflowing(everyone.largest(), everyone.grains());
    if (too_large.empty()) {
        return false;
    }
    record.units = record.units.coarser(too_large);
    ++record.replay;
    engine.open(std::move(record));
    return true;
}

// An update takes every grain of its window once, or does not happen: the law hangs on it, and a data source, a model or an
// exchange of another kind could leave one out.
void require_all_grains(const GrainLedger& ledger, const WindowRecord& record) {
    const int64_t grains = record.window.grains();
    const std::vector<int64_t> missing = ledger.missing();
    const auto fail = [&](const std::string& what) {
        throw Error(cat("step ", record.step, ": the sums hold ", what,
                        ". The weights were not changed. This is a fault of the program: please report it with your ",
                        "run.toml."));
    };
    if (ledger.grains() != grains || !missing.empty()) {
        fail(cat(ledger.finished(), " of the window's ", grains, " grains",
                 missing.empty() ? std::string() : cat(", and grain ", missing.front(), " is the first missing")));
    }
    if (record.counted_tokens.value_or(ledger.counted_tokens()) != ledger.counted_tokens()) {
        fail(cat(ledger.counted_tokens(), " tokens, but the window counts ", *record.counted_tokens));
    }
}

// Is the loss scale to blame for a bad value, as far as one can see? Losses are not scaled: where one is not finite, no scale
// helps.
bool is_scale_too_large(const Engine& engine, const GrainLedger& ledger) {
    return engine.state.loss_scale.can_fall() && ledger.first_bad() && std::isfinite(ledger.loss_sum());
}

// What a bad value means where losses are scaled.
std::string scale_text(const Engine& engine, const GrainLedger& ledger) {
    const LossScale& scale = engine.state.loss_scale;
    if (engine.rules.loss_scale_steps == 0) {
        return "";
    }
    if (!std::isfinite(ledger.loss_sum())) {
        return cat("; the loss is not finite either, so that no loss scale helps (it stays at ", scale.value, ")");
    }
    return scale.can_fall() ? cat("; the loss scale falls from ", scale.value, " to ", scale.halved().value)
                            : cat("; the loss scale cannot fall below ", scale.value);
}

// Why a window must not change the weights; empty = it may.
std::string reason_to_skip(const Engine& engine, const GrainLedger& ledger) {
    if (const auto bad = ledger.first_bad()) {
        return cat("grain ", bad->grain, " has a gradient that is not finite, first in ",
                   engine.model->parameters().of_gradient(bad->tensor).name, scale_text(engine, ledger));
    }
    if (ledger.counted_tokens() == 0) {
        return "it counts no token";
    }
    return "";
}

// One update by the window's mean gradient.
void update_weights(Engine& engine, std::optional<double> norm_of_all, StepReport& report) {
    const MeanGradient mean = engine.sum.mean();  // a view: the one division is a factor in it
    const double norm = norm_of_all ? *norm_of_all : mean.norm(engine.kernels);
    if (!std::isfinite(norm)) {  // exact sums are always finite; others may overflow where no grain does
        report.skipped = true;
        report.skip_reason =
            "the sum of its gradients is too large for its number format. Use compute.sums = \"exact\"";
        return;
    }
    const double clip = clip_factor(norm, engine.rules.clip_norm);
    const GrainLedger& ledger = engine.sum.ledger();
    report.grad_norm = norm;
    report.clipped = clip < 1;
    report.grains = grain_statistics(ledger, norm);
    engine.optimizer->update(mean.scaled(clip), {.rate = report.rate, .beta2 = report.beta2}, engine.weights);
    engine.kernels.submit();  // a device updates while the host prepares what comes next
    if (engine.sum.kind() == SumKind::exact) {
        engine.state.units = engine.sum.units().next(ledger.largest());
    }
}

// What is known of the complete window before its update.
StepReport report_of(const Engine& engine) {
    const WindowRecord& record = *engine.state.open;
    const GrainLedger& ledger = engine.sum.ledger();
    const int64_t at_once = engine.rules.micro_batch_grains;
    StepReport report{.step = record.step,
                      .window = record.window,
                      .tokens = ledger.counted_tokens(),
                      .micro_batches = (record.window.grains() + at_once - 1) / at_once,
                      .rate = record.rate,
                      .beta2 = record.beta2,
                      .skip_reason = reason_to_skip(engine, ledger),
                      .replays = record.replay};
    report.skipped = !report.skip_reason.empty();
    report.lowers_loss_scale = is_scale_too_large(engine, ledger);
    if (engine.rules.loss_scale_steps > 0) {
        report.loss_scale = record.loss_scale;
    }
    if (const auto bad = ledger.first_bad()) {
        report.bad_grain = bad->grain;
    }
    if (report.tokens > 0 && std::isfinite(ledger.loss_sum())) {
        report.loss = ledger.loss_sum() / static_cast<double>(report.tokens);
    }
    return report;
}

// Windows that only found a smaller loss scale say nothing about the run: they neither count as bad nor as good.
void count_skips(Engine& engine, const StepReport& report) {
    Engine::State& state = engine.state;
    if (report.lowers_loss_scale) {
        state.loss_scale = state.loss_scale.halved();
        return;
    }
    const bool is_bad = report.skipped && (report.bad_grain || report.tokens > 0);
    state.skipped_in_a_row = is_bad ? state.skipped_in_a_row + 1 : 0;
    if (is_bad) {
        state.loss_scale = state.loss_scale.after_bad_window();
    } else if (!report.skipped && engine.rules.loss_scale_steps > 0) {
        state.loss_scale = state.loss_scale.after_good_window(engine.rules.loss_scale_steps);
    }
}

void close_window(Engine& engine, const StepReport& report) {
    count_skips(engine, report);
    engine.state.tokens += report.tokens;
    engine.state.position = report.window.next();
    engine.state.step = report.step;
    engine.state.open.reset();
}

}  // namespace

std::optional<StepReport> run_step(Engine& engine, const Workers& workers, const BatchSource& data,
                                   const Window& window, const StopFlag& stop) {
    const auto start = Clock::now();
    GrainTimes times;
    open_window(engine, data, window);
    for (bool fits = false; !fits;) {
        const auto wish = add_my_grains(engine, workers.assignment, data, stop, times);
        const auto [everyone, stops] = workers.reducer.agree(engine.sum.ledger(), wish);
        if (stops && everyone.finished() < everyone.grains()) {
            leave_open(engine, workers.reducer);
            return std::nullopt;
        }
        fits = !must_replay(engine, everyone);
    }
    workers.reducer.add_everyones(engine.sum);
    StepReport report = apply_window(engine, workers.reducer.norm());
    times.write_to(report);
    report.seconds = seconds_since(start);
    return report;
}

StepReport apply_window(Engine& engine, std::optional<double> norm) {
    require_all_grains(engine.sum.ledger(), *engine.state.open);
    StepReport report = report_of(engine);
    if (!report.skipped) {
        update_weights(engine, norm, report);
    }
    close_window(engine, report);
    return report;
}

std::optional<StepReport> run_step(Engine& engine, const BatchSource& data, const Window& window,
                                   const StopFlag& stop) {
    Alone alone;
    return run_step(engine, alone.workers(), data, window, stop);
}

}  // namespace accrue
