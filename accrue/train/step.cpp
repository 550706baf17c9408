#include "accrue/train/step.h"

#include <algorithm>
#include <cmath>

#include "accrue/base/clock.h"

namespace accrue {
namespace {

// Measures the first grain that counts anything, from which a run's first units come. Everybody computes the same.
Units first_units(Engine& engine, const BatchSource& data, const Window& window) {
    std::vector<GradientProbe::Shape> shapes;
    for (const SumTensor& tensor : engine.sum.tensors()) {
        shapes.push_back({.rows = tensor.rows, .columns = tensor.columns});
    }
    for (int64_t grain = 0; grain < window.grains(); ++grain) {
        const TokenBatch batch = data.load(window, std::span(&grain, 1));
        if (std::any_of(batch.targets.begin(), batch.targets.end(), [](int32_t target) { return target >= 0; })) {
            GradientProbe probe(shapes, window.grains());
            engine.model->forward_backward(batch, engine.weights_to_read(), probe);
            return Units::first(probe.ledger().largest());
        }
    }
    return Units::first(std::vector<float>(shapes.size(), 0.0F));  // nothing counts: the window will be skipped
}

void open_window(Engine& engine, const BatchSource& data, const Window& window) {
    if (engine.state.window_open) {
        return;  // resumed in the middle
    }
    const bool needs_units = engine.sum.kind() == SumKind::exact && engine.state.units.empty();
    engine.sum.open(window.grains(), needs_units ? first_units(engine, data, window) : engine.state.units,
                    engine.rounding_seed());
    engine.state.window_open = true;
    engine.state.replays = 0;
}

// If the window's sums may not have fitted, begins it again with coarser units. A window with a bad value is skipped
// anyway.
bool must_replay(Engine& engine, const Window& window) {
    if (engine.sum.kind() != SumKind::exact || engine.sum.ledger().first_bad()) {
        return false;
    }
    const auto too_large = engine.sum.units().overflowing(engine.sum.ledger().largest(), window.grains());
    if (too_large.empty()) {
        return false;
    }
    engine.sum.open(window.grains(), engine.sum.units().coarser(too_large));
    ++engine.state.replays;
    return true;
}

// Adds the window's missing grains, again and again until they fit. False if stopped before.
bool add_all_grains(Engine& engine, const BatchSource& data, const Window& window, const StopFlag& stop,
                    StepReport& report) {
    double total = 0;
    do {
        const auto micro_batches = cut(engine.sum.ledger().missing(), engine.rules.micro_batch_grains);
        for (const MicroBatch& micro_batch : micro_batches) {
            if (stop) {
                return false;
            }
            const auto start = Clock::now();
            const TokenBatch batch = data.load(window, micro_batch.grains);
            const double wait = seconds_since(start);
            engine.model->forward_backward(batch, engine.weights_to_read(), engine.sum);
            const double seconds = seconds_since(start) - wait;
            report.data_wait_seconds += wait;
            report.grain_seconds_max =
                std::max(report.grain_seconds_max, seconds / static_cast<double>(micro_batch.grains.size()));
            total += seconds;
        }
    } while (must_replay(engine, window));
    report.grain_seconds_mean = total / static_cast<double>(window.grains() * (engine.state.replays + 1));
    return true;
}

// An update takes every grain of its window, or does not happen: the law hangs on it, and a data source or a model of
// another kind could leave one out.
void require_all_grains(const GrainLedger& ledger, const Window& window, int64_t step) {
    const std::vector<int64_t> missing = ledger.missing();
    if (ledger.grains() != window.grains() || !missing.empty()) {
        throw Error(cat("step ", step, ": the sums hold ", ledger.grains() - std::ssize(missing), " of the window's ",
                        window.grains(), " grains",
                        missing.empty() ? std::string() : cat(", and grain ", missing.front(), " is the first missing"),
                        ". The weights were not changed. This is a fault of the program: please report it with your ",
                        "run.toml."));
    }
}

// Why a window must not change the weights; empty = it may.
std::string reason_to_skip(const Engine& engine, const GrainLedger& ledger) {
    if (const auto bad = ledger.first_bad()) {
        return cat("grain ", bad->grain, " has a gradient that is not finite, first in ",
                   engine.model->parameters()[bad->tensor].name);
    }
    if (ledger.counted_tokens() == 0) {
        return "it counts no token";
    }
    return "";
}

// One update by the window's mean gradient.
void update_weights(Engine& engine, StepReport& report) {
    const MeanGradient mean = engine.sum.mean();  // a view: the one division is a factor in it
    const double norm = mean.norm(engine.kernels);
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
    if (engine.sum.kind() == SumKind::exact) {
        engine.state.units = engine.sum.units().next(ledger.largest());
    }
}

void finish_window(Engine& engine, const Window& window) {
    engine.state.position = window.next();
    engine.state.window_open = false;
    ++engine.state.step;
}

}  // namespace

std::optional<StepReport> run_step(Engine& engine, const BatchSource& data, const Window& window,
                                   const StopFlag& stop) {
    const auto start = Clock::now();
    StepReport report{.step = engine.state.step + 1, .window = window};
    open_window(engine, data, window);
    if (!add_all_grains(engine, data, window, stop, report)) {
        return std::nullopt;
    }
    const GrainLedger& ledger = engine.sum.ledger();
    require_all_grains(ledger, window, report.step);
    const Engine::Rules& rules = engine.rules;
    report.tokens = ledger.counted_tokens();
    report.replays = engine.state.replays;
    report.micro_batches = (window.grains() + rules.micro_batch_grains - 1) / rules.micro_batch_grains;
    report.rate = rules.rate_of(window, report.tokens) * rules.schedule.factor(engine.state.step);
    report.beta2 = rules.beta2_half_life_tokens > 0
                       ? beta2_for_half_life(rules.beta2_half_life_tokens, static_cast<double>(report.tokens))
                       : rules.beta2;
    report.skip_reason = reason_to_skip(engine, ledger);
    report.skipped = !report.skip_reason.empty();
    if (const auto bad = ledger.first_bad()) {
        report.bad_grain = bad->grain;
    }
    if (report.tokens > 0 && std::isfinite(ledger.loss_sum())) {
        report.loss = ledger.loss_sum() / static_cast<double>(report.tokens);
    }

    if (!report.skipped) {
        update_weights(engine, report);
    }
    engine.state.tokens += report.tokens;
    const bool broken = report.skipped && (report.bad_grain || report.tokens > 0);
    engine.state.skipped_in_a_row = broken ? engine.state.skipped_in_a_row + 1 : 0;
    finish_window(engine, window);
    report.seconds = seconds_since(start);
    return report;
}

}  // namespace accrue
