#include "accrue/train/open_window.h"

#include <algorithm>

#include "accrue/accumulate/gradient_probe.h"
#include "accrue/base/error.h"

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
            GradientProbe probe(shapes, window.grains(), engine.kernels, engine.state.loss_scale.value);
            engine.model->forward_backward(batch, engine.weights_to_read(), probe);
            return Units::first(probe.ledger().largest());
        }
    }
    return Units::first(std::vector<float>(shapes.size(), 0.0F));  // nothing counts: the window will be skipped
}

WindowRecord record_of(const Engine& engine, const BatchSource& data, const Window& window) {
    return engine.record_of(
        window, engine.rules.need_tokens_of(window) ? std::optional(data.counted_tokens(window)) : std::nullopt);
}

// A checkpoint of an older version knows only with which units, and after how many replays, its window was open.
bool is_of_older_version(const WindowRecord& record) {
    return record.window == Window{};
}

void complete(WindowRecord& older, WindowRecord whole) {
    whole.units = older.units;
    whole.replay = older.replay;
    older = std::move(whole);
}

}  // namespace

void open_window(Engine& engine, const BatchSource& data, const Window& window) {
    std::optional<WindowRecord>& open = engine.state.open;
    if (!open) {
        WindowRecord record = record_of(engine, data, window);
        if (engine.sum.kind() == SumKind::exact && record.units.empty()) {
            record.units = first_units(engine, data, window);
        }
        engine.open(std::move(record));
    } else if (is_of_older_version(*open)) {
        complete(*open, record_of(engine, data, window));
    }
    if (open->window != window) {
        throw Error(cat("step ", open->step, ": a window of ", open->window.samples, " samples from place ",
                        open->window.first.place, " of epoch ", open->window.first.epoch,
                        " is open, but the data gives one of ", window.samples, " from place ", window.first.place,
                        " of epoch ", window.first.epoch, ". Put the data and the window's settings back."));
    }
}

}  // namespace accrue
