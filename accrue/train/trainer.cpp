#include "accrue/train/trainer.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/bytes.h"
#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/process_age.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/model/model_folder.h"
#include "accrue/observe/metrics.h"
#include "accrue/observe/report.h"
#include "accrue/train/engine.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/generate.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/metrics_line.h"
#include "accrue/train/start.h"
#include "accrue/train/state.h"

namespace accrue {
namespace {

// A run that cannot compute a finite gradient three times in a row will not recover by itself.
constexpr int64_t kMostSkipsInARow = 3;

constexpr int64_t kSampleTokens = 300;

std::string window_text(const Settings& settings) {
    return settings.window.tokens > 0 ? fmt::format("{} tokens", settings.window.tokens)
                                      : fmt::format("{} samples", settings.window.samples);
}

// The number formats of sums and, where they are not fp32, of moments.
std::string formats_text(const Settings& settings) {
    const std::string& moments = settings.optimizer.moments;
    return cat("sums ", settings.compute.sums, moments == "fp32" ? "" : ", moments " + moments);
}

// One run in this process: built once, then stepped.
class Trainer {
public:
    Trainer(const RunInputs& inputs, const RunFolder& folder, Progress& progress, const MemorySource& memory)
        : inputs_(inputs),
          folder_(folder),
          progress_(progress),
          pool_(static_cast<int>(inputs.settings.compute.threads)),
          plan_(inputs.settings, inputs.model, inputs.longest_sample(), pool_.threads(), memory),
          arena_(plan_.address_bytes()),
          kernels_(make_kernels(inputs.settings.compute, pool_, arena_)),
          engine_(inputs.settings, inputs.model, inputs.longest_sample(), *kernels_, plan_.plan().choices),
          loader_(*inputs.train, sample_order_of(inputs.settings, inputs.train->size())),
          batches_(
              loader_, [this](const DataPosition& position) { return window_from(position); },
              engine_.rules.micro_batch_grains),
          definition_(definition_of(inputs, engine_.model.parameters())) {
        follow_plan();
        arena_.touch();
    }

    TrainSummary run(const StopFlag& stop);

private:
    void follow_plan();
    void begin();
    [[nodiscard]] Window window_from(const DataPosition& position) const {
        return loader_.window_from(position, engine_.rules.window);
    }
    [[nodiscard]] std::optional<double> validation_loss();
    void after_step(const StepReport& report, MetricsFile& metrics);
    void note_skip(const StepReport& report);
    void save_checkpoint();
    void finish();
    void write_report() const;
    [[nodiscard]] std::string sample_of_text();

    const RunInputs& inputs_;
    const RunFolder& folder_;
    Progress& progress_;
    Pool pool_;
    RunPlan plan_;
    Arena arena_;
    std::unique_ptr<Kernels> kernels_;
    Engine engine_;
    Loader loader_;
    LoadAhead batches_;
    std::string definition_;
    TrainSummary summary_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point epoch_start_ = start_;
    int64_t first_step_ = 0;
    std::optional<double> startup_seconds_;  // until the line of the first step tells them
};

// Between any two windows; nothing of it changes a bit.
void Trainer::follow_plan() {
    const Plan& plan = plan_.plan();
    engine_.choose(plan.choices);
    engine_.rules.micro_batch_grains = plan.micro_batch_grains;
    batches_.set_micro_batch_grains(plan.micro_batch_grains);
    arena_.keep(plan.arena_bytes);
}

void Trainer::begin() {
    const auto checkpoint = folder_.newest_checkpoint();
    if (checkpoint) {
        load_state(engine_, definition_, *checkpoint);
    } else {
        load_first_weights(engine_, inputs_.settings);
    }
    MetricsFile::keep_steps(folder_.metrics(), engine_.state.step);
    first_step_ = engine_.state.step;
    const Settings& settings = inputs_.settings;
    progress_.note(fmt::format("accrue: {} parameters, {} samples of up to {} tokens",
                               engine_.model.parameters().trainable(), inputs_.train->size(),
                               inputs_.longest_sample()));
    progress_.note(fmt::format("window: {}, grains of {} sample(s), {} grain(s) a micro-batch, {}",
                               window_text(settings), settings.window.grain_samples, engine_.rules.micro_batch_grains,
                               formats_text(settings)));
    progress_.note(fmt::format("device: {}; {}; memory planned: {}, {}", kernels_->description(),
                               settings.compute.dtype, format_bytes(plan_.peak_bytes()), text_of(plan_.plan())));
    progress_.note(
        fmt::format("folder: {}{}", folder_.root.string(),
                    checkpoint ? fmt::format(", continued from step {}", engine_.state.step) : std::string()));
    if (!checkpoint) {
        summary_.validation_before = validation_loss();
    }
}

std::optional<double> Trainer::validation_loss() {
    if (!inputs_.validation || inputs_.settings.run.evaluate_steps == 0) {
        return std::nullopt;
    }
    const int64_t at_once = engine_.rules.micro_batch_grains * engine_.rules.window.grain_samples;
    return evaluate(engine_.model, engine_.weights_to_read(), *inputs_.validation, at_once).loss;
}

void Trainer::save_checkpoint() {
    save_state(engine_, definition_, folder_.checkpoints());
    if (inputs_.settings.run.keep_checkpoints > 0) {
        remove_old_checkpoints(folder_.checkpoints(), inputs_.settings.run.keep_checkpoints);
    }
}

void Trainer::note_skip(const StepReport& report) {
    if (!report.skipped) {
        return;
    }
    std::string samples;
    if (report.bad_grain) {
        for (const int64_t sample : loader_.samples_of(report.window, *report.bad_grain)) {
            samples += (samples.empty() ? " (samples " : ", ") + std::to_string(sample);
        }
        samples += " of the training data)";
    }
    progress_.note(fmt::format("step {} skipped, weights unchanged: {}{}", report.step, report.skip_reason, samples));
}

void Trainer::after_step(const StepReport& report, MetricsFile& metrics) {
    const Settings::Run& run = inputs_.settings.run;
    const bool last = report.step == engine_.rules.schedule.steps;
    const auto due = [&](int64_t every) { return last || (every > 0 && report.step % every == 0); };
    StepSurroundings around{.validation_loss = {},
                            .weights_hash = {},
                            .epoch_seconds = {},
                            .startup_seconds = std::exchange(startup_seconds_, {})};
    if (due(run.evaluate_steps)) {
        around.validation_loss = validation_loss();
        summary_.validation_after = around.validation_loss;
    }
    if (due(run.checkpoint_steps)) {
        around.weights_hash = engine_.weights_hash();
    }
    if (report.window.ends_epoch) {
        around.epoch_seconds = seconds_since(epoch_start_);
        epoch_start_ = Clock::now();
    }
    around.peak_bytes = peak_resident_bytes();
    around.planned_bytes = plan_.plan().arena_bytes;
    // The line is written, and safe from a power cut, before the checkpoint: a resume cuts lines behind its checkpoint,
    // but cannot write missing ones.
    metrics.append(metrics_line(report, around));
    if (due(run.checkpoint_steps)) {
        metrics.sync();
        save_checkpoint();
    }
    summary_.loss_before = summary_.loss_before ? summary_.loss_before : report.loss;
    summary_.loss_after = report.loss ? report.loss : summary_.loss_after;
    note_skip(report);
    const double seconds_per_step = seconds_since(start_) / static_cast<double>(report.step - first_step_);
    progress_.report(
        {.step = report.step,
         .loss = report.loss.value_or(std::nan("")),
         .validation_loss = around.validation_loss,
         .tokens_per_second = static_cast<double>(report.tokens) / report.seconds,
         .updates_per_hour = 3600.0 / seconds_per_step,
         .peak_bytes = around.peak_bytes,
         .seconds_left = seconds_per_step * static_cast<double>(engine_.rules.schedule.steps - report.step)});
    if (engine_.state.skipped_in_a_row >= kMostSkipsInARow) {
        throw Error(cat("three windows in a row were skipped because of gradients that are not finite (last: step ",
                        report.step, ", ", report.skip_reason,
                        "). Lower optimizer.rate or look at the named samples, then continue from the ",
                        "last checkpoint: accrue train --resume ", folder_.root.string()));
    }
}

std::string Trainer::sample_of_text() {
    if (!inputs_.tokenizer) {
        return "";
    }
    const Tokenizer& tokenizer = *inputs_.tokenizer;
    std::vector<int32_t> prompt = tokenizer.encode("Once upon a time", Special::with);
    if (!inputs_.settings.data.train.empty()) {
        const Sample first = inputs_.train->sample(0);
        prompt.assign(first.tokens.begin(), first.tokens.begin() + std::min<int64_t>(16, std::ssize(first.tokens)));
    }
    if (prompt.empty()) {
        return "";  // the first sample counts nothing
    }
    std::vector<int32_t> text = prompt;
    generate(engine_.model, engine_.weights_to_read(), prompt, inputs_.longest_sample(),
             {.temperature = 0.4, .tokens = kSampleTokens, .end_token = tokenizer.end_of_document().value_or(-1)},
             [&](int32_t token) { text.push_back(token); });
    return tokenizer.decode(text, Special::without);
}

void Trainer::write_report() const {
    const Settings& settings = inputs_.settings;
    const std::string model = settings.model.from.empty() ? settings.model.preset : settings.model.from;
    write_text(
        folder_.report(),
        report_html(folder_.metrics(),
                    {.title = "accrue: " + folder_.root.filename().string(),
                     .facts = {{"Model", model},
                               {"Parameters", std::to_string(engine_.model.parameters().trainable())},
                               {"Window", window_text(settings)},
                               {"Grain", fmt::format("{} sample(s)", settings.window.grain_samples)},
                               {"Sequence", fmt::format("up to {} tokens", inputs_.longest_sample())},
                               {"Optimizer", fmt::format("{}, rate {:g}", settings.optimizer.name, engine_.rules.rate)},
                               {"Numbers", fmt::format("{}, {}", settings.compute.dtype, formats_text(settings))},
                               {"Device", kernels_->description()},
                               {"Seed", std::to_string(settings.run.seed)}},
                     .validation_before = summary_.validation_before}));
}

void Trainer::finish() {
    const View<float> master = engine_.weights.master;
    write_model_folder(folder_.model(), inputs_.model, engine_.model.parameters(),
                       std::span<const float>(master.data, static_cast<size_t>(master.columns)),
                       [&](const std::filesystem::path& model) { copy_tokenizer_files(inputs_.settings, model); });
    write_report();
    summary_.sample = sample_of_text();
}

TrainSummary Trainer::run(const StopFlag& stop) {
    begin();
    start_ = epoch_start_ = Clock::now();
    MetricsFile metrics(folder_.metrics());
    startup_seconds_ = process_age_seconds();
    while (engine_.state.step < engine_.rules.schedule.steps && summary_.end == TrainSummary::End::done) {
        if (const auto change = plan_.reconsider()) {
            follow_plan();
            progress_.note(change->note);
        }
        if (const auto report = run_step(engine_, batches_, window_from(engine_.state.position), stop)) {
            after_step(*report, metrics);
        } else {
            summary_.end = TrainSummary::End::stopped;
            summary_.grains_of_open_window =
                engine_.sum.ledger().grains() - static_cast<int64_t>(engine_.sum.ledger().missing().size());
            metrics.sync();
            save_checkpoint();
        }
    }
    summary_.seconds = seconds_since(start_);
    progress_.finish();
    summary_.step = engine_.state.step;
    summary_.tokens = engine_.state.tokens;
    if (summary_.end == TrainSummary::End::done) {
        finish();
    }
    return summary_;
}

}  // namespace

TrainSummary train(const RunInputs& inputs, const RunFolder& folder, Progress& progress, const StopFlag& stop,
                   const MemorySource& memory) {
    return Trainer(inputs, folder, progress, memory).run(stop);
}

}  // namespace accrue
