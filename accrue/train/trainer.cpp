#include "accrue/train/trainer.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
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
#include "accrue/observe/history.h"
#include "accrue/observe/metric_table.h"
#include "accrue/observe/metrics.h"
#include "accrue/observe/report.h"
#include "accrue/train/chat_choice.h"
#include "accrue/train/engine.h"
#include "accrue/train/epoch.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/metrics_line.h"
#include "accrue/train/newest_checkpoint.h"
#include "accrue/train/run_texts.h"
#include "accrue/train/sample_text.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/start.h"
#include "accrue/train/state.h"
#include "accrue/train/watched_batches.h"

namespace accrue {
namespace {

// A run that cannot compute a finite gradient three times in a row will not recover by itself.
constexpr int64_t kMostSkipsInARow = 3;

// One run in this process: built once, then stepped.
class Trainer {
public:
    Trainer(const RunInputs& inputs, RunClaim& claim, Progress& progress, const TrainOptions& options)
        : inputs_(inputs),
          claim_(claim),
          folder_(claim.folder()),
          progress_(progress),
          options_(options),
          pool_(static_cast<int>(inputs.settings.compute.threads)),
          plan_(settings_to_plan(inputs), inputs.model, inputs.longest_sample(), pool_.threads(), options.memory),
          numerics_{.now = numerics_of(inputs.settings, inputs.model, inputs.train->longest(), pool_), .changes = {}},
          arena_(plan_.address_bytes()),
          kernels_(make_kernels_in_memory()),
          engine_(inputs.settings, inputs.model, inputs.longest_sample(), *kernels_, plan_.plan().choices),
          loader_(*inputs.train, sample_order_of(inputs.settings, inputs.train->size())),
          batches_(
              loader_, [this](const DataPosition& position) { return window_from(position); },
              engine_.rules.micro_batch_grains),
          watched_(batches_, progress.watch()),
          definition_(definition_of(inputs, engine_.model.parameters())) {
        follow_plan();
    }

    TrainSummary run(const StopFlag& stop);

private:
    [[nodiscard]] std::unique_ptr<Kernels> make_kernels_in_memory();
    void follow_plan();
    // Long work by all threads, shown while it is done. action(LongWork).
    template <class Action>
    auto shown(const std::string& doing, const std::string& unit, Action action) {
        WorkProgress bar = progress_.work(doing, unit);
        return action(
            LongWork{.pool = &pool_, .told = [&bar](int64_t done, int64_t total) { bar.report(done, total); }});
    }
    void begin(const StopFlag& stop);
    void tell_job();
    void load_checkpoint();
    void evaluate_what_was_left(const StopFlag& stop);
    void stop_here();
    [[nodiscard]] Window window_from(const DataPosition& position) const {
        return loader_.window_from(position, engine_.rules.window);
    }
    [[nodiscard]] bool is_due(int64_t every, int64_t step) const {
        return step == engine_.rules.schedule.steps || (every > 0 && step % every == 0);
    }
    [[nodiscard]] bool evaluates() const { return inputs_.validation && inputs_.settings.run.evaluate_steps != 0; }
    [[nodiscard]] std::optional<double> validation_loss(const StopFlag& stop);
    void after_step(const StepReport& report, MetricsFile& metrics, const StopFlag& stop);
    void note_skip(const StepReport& report);
    void save_checkpoint();
    void finish(const StopFlag& stop);
    void write_report() const;
    void write_model(const StopFlag& stop);
    void add_companions(const std::filesystem::path& model) const;
    void show_text(const StopFlag& stop);

    const RunInputs& inputs_;
    RunClaim& claim_;
    const RunFolder& folder_;
    Progress& progress_;
    TrainOptions options_;
    Pool pool_;
    RunPlan plan_;
    NumericsRecord numerics_;
    Arena arena_;
    std::unique_ptr<Kernels> kernels_;
    Engine engine_;
    Loader loader_;
    LoadAhead batches_;
    WatchedBatches watched_;
    std::string definition_;
    TrainSummary summary_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point epoch_start_ = start_;
    int64_t first_step_ = 0;
    std::optional<double> startup_seconds_;  // until the line of the first step tells them
};

// Memory that is there before the first use of it: to get it can take longer than all that follows.
std::unique_ptr<Kernels> Trainer::make_kernels_in_memory() {
    arena_.keep(plan_.plan().arena_bytes);
    shown("taking memory", "bytes", [&](const LongWork& work) { arena_.touch(work); });
    return make_kernels(inputs_.settings.compute, pool_, arena_);
}

// Between any two windows; nothing of it changes a bit.
void Trainer::follow_plan() {
    const Plan& plan = plan_.plan();
    engine_.choose(plan.choices);
    engine_.rules.micro_batch_grains = plan.micro_batch_grains;
    batches_.set_micro_batch_grains(plan.micro_batch_grains);
    arena_.keep(plan.arena_bytes);
}

// Everything that may speak against continuing from here is found before the run's files are touched.
void Trainer::load_checkpoint() {
    std::vector<std::string> notes;  // until the bar is gone
    const auto checkpoint = shown("checking the checkpoint", "bytes", [&](const LongWork& work) {
        return open_newest_checkpoint(
            folder_.checkpoints(), [&](const std::string& line) { notes.push_back(line); }, work);
    });
    for (const std::string& line : notes) {
        progress_.note(line);
    }
    shown("reading the checkpoint", "bytes",
          [&](const LongWork& work) { load_state(engine_, definition_, checkpoint.value(), work); });
    numerics_ = continued_numerics(numerics_of_checkpoint(checkpoint->path()), numerics_.now, engine_.state.step,
                                   options_.other_bits);
    if (engine_.rules.schedule.steps < engine_.state.step) {
        throw Error(cat("schedule.steps is ", engine_.rules.schedule.steps, ", but ", folder_.root.string(),
                        " has done ", engine_.state.step, " steps already. Set schedule.steps to at least that."));
    }
}

void Trainer::tell_job() {
    const Settings& settings = inputs_.settings;
    progress_.note(fmt::format("accrue: {} parameters, {} samples of up to {} tokens",
                               engine_.model.parameters().trainable(), inputs_.train->size(),
                               inputs_.longest_sample()));
    progress_.note(fmt::format("window: {}, grains of {} sample(s), {} grain(s) a micro-batch, {}",
                               window_text(settings), settings.window.grain_samples, engine_.rules.micro_batch_grains,
                               formats_text(settings)));
    if (const std::string epoch = epoch_text(settings, *inputs_.train); !epoch.empty()) {
        progress_.note(epoch);
    }
    progress_.note(fmt::format("device: {}; {}; memory planned: {}, {}", kernels_->description(),
                               word_of(settings.compute.dtype), format_bytes(plan_.peak_bytes()),
                               text_of(plan_.plan())));
}

void Trainer::begin(const StopFlag& stop) {
    tell_job();
    const bool goes_on = claim_.goes_on();
    if (goes_on) {
        load_checkpoint();
    } else {
        shown(starts_fresh(inputs_.settings.model) ? "preparing weights" : "reading the model", "bytes",
              [&](const LongWork& work) { load_first_weights(engine_, inputs_.settings, work); });
    }
    claim_.begin(inputs_.settings);
    MetricsFile::keep_steps(folder_.metrics(), engine_.state.step);
    first_step_ = engine_.state.step;
    progress_.watch().saved_step = goes_on ? engine_.state.step : RunWatch::kUnknown;
    progress_.note(fmt::format("folder: {}{}", folder_.root.string(),
                               goes_on ? fmt::format(", continued from step {}", engine_.state.step) : std::string()));
    for (const auto& [step, from, to] : numerics_.changes) {
        progress_.note(
            fmt::format("bits: since step {} those of {}, before those of {}", step, text_of(to), text_of(from)));
    }
    for (const std::string& note : inputs_.notes) {
        progress_.note(note);
    }
    for (const std::string& note : notes_on(*inputs_.train, "training data")) {
        progress_.note(note);
    }
    for (const std::string& note :
         inputs_.validation ? notes_on(*inputs_.validation, "validation data") : std::vector<std::string>()) {
        progress_.note(note);
    }
    if (!goes_on && !inputs_.settings.model.from.empty() && inputs_.settings.model.weights == InitialWeights::fresh) {
        progress_.note(fresh_weights_text(inputs_.settings.model.from));
    }
    if (engine_.state.step > 0) {
        const RunHistory history = read_history(folder_.metrics());
        summary_.validation_before =
            std::isnan(history.validation_before) ? std::nullopt : std::optional(history.validation_before);
        evaluate_what_was_left(stop);
    } else if ((summary_.validation_before = validation_loss(stop))) {
        progress_.first_validation(*summary_.validation_before);
    }
    progress_.watch().doing = RunWatch::Doing::adding;
}

// A stop during a step's validation left its line without the loss, which an undisturbed run's has.
void Trainer::evaluate_what_was_left(const StopFlag& stop) {
    const auto line = MetricsFile::last_line(folder_.metrics());
    const int64_t step = engine_.state.step;
    if (!evaluates() || !is_due(inputs_.settings.run.evaluate_steps, step) || !line ||
        line->value(Metrics::step.name, int64_t{-1}) != step || line->contains(Metrics::validation_loss.name)) {
        return;
    }
    if (const auto loss = validation_loss(stop)) {
        MetricsFile::replace_last_line(folder_.metrics(), with_validation_loss(*line, *loss));
        summary_.validation_after = loss;
    } else {
        summary_.end = TrainSummary::End::stopped;
    }
}

// Nothing where nothing is evaluated, or if `stop` was set before the end.
std::optional<double> Trainer::validation_loss(const StopFlag& stop) {
    if (!evaluates()) {
        return std::nullopt;
    }
    const DoingMeanwhile evaluating(progress_.watch(), RunWatch::Doing::evaluating);
    const int64_t at_once = engine_.rules.micro_batch_grains * engine_.rules.window.grain_samples;
    const auto result = shown("validating", "samples", [&](const LongWork& work) {
        return evaluate_unless_stopped(engine_.model, engine_.weights_to_read(), *inputs_.validation, at_once, stop,
                                       work.told);
    });
    return result ? std::optional(result->loss) : std::nullopt;
}

void Trainer::save_checkpoint() {
    const DoingMeanwhile saving(progress_.watch(), RunWatch::Doing::saving);
    const auto start = Clock::now();
    shown(cat("writing checkpoint step-", engine_.state.step), "bytes",
          [&](const LongWork& work) { save_state(engine_, definition_, folder_.checkpoints(), numerics_, work); });
    progress_.watch().checkpoint_milliseconds = WatchedBatches::milliseconds_since(start);
    progress_.watch().saved_step = engine_.state.step;
    if (inputs_.settings.run.keep_checkpoints > 0) {
        remove_old_checkpoints(folder_.checkpoints(), inputs_.settings.run.keep_checkpoints, engine_.state.step);
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

void Trainer::after_step(const StepReport& report, MetricsFile& metrics, const StopFlag& stop) {
    const Settings::Run& run = inputs_.settings.run;
    const auto due = [&](int64_t every) { return is_due(every, report.step); };
    watched_.pause();
    progress_.watch().micro_batch_milliseconds =
        static_cast<int64_t>(1000 * report.seconds / static_cast<double>(report.micro_batches));
    StepSurroundings around{.validation_loss = {},
                            .validation_loss_before = report.step == 1 ? summary_.validation_before : std::nullopt,
                            .weights_hash = {},
                            .epoch_seconds = {},
                            .startup_seconds = std::exchange(startup_seconds_, {})};
    if (due(run.evaluate_steps)) {
        around.validation_loss = validation_loss(stop);
        summary_.validation_after = around.validation_loss;
        if (evaluates() && !around.validation_loss) {
            summary_.end = TrainSummary::End::stopped;
        }
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

void Trainer::show_text(const StopFlag& stop) {
    if (!inputs_.tokenizer || stop) {
        return;
    }
    const Tokenizer& tokenizer = *inputs_.tokenizer;
    std::vector<int32_t> prompt = tokenizer.encode("Once upon a time", Special::with);
    if (!inputs_.settings.data.train.empty()) {
        const Sample first = inputs_.train->sample(0);
        prompt.assign(first.tokens.begin(), first.tokens.begin() + std::min<int64_t>(16, std::ssize(first.tokens)));
    }
    if (prompt.empty()) {
        return;  // the first sample counts nothing
    }
    summary_.has_shown_text = true;
    progress_.text("\nIt writes:\n");
    show_sample(
        engine_.model, engine_.weights_to_read(), tokenizer, std::move(prompt), inputs_.longest_sample(),
        [this](std::string_view piece) { progress_.text(piece); }, stop);
    progress_.text("\n");
}

void Trainer::write_report() const {
    write_text(folder_.report(),
               report_html(folder_.metrics(), {.title = "accrue: " + folder_.root.filename().string(),
                                               .facts = facts_of(inputs_, engine_, kernels_->description())}));
}

// The model is written while its first text is read: both only look at the weights.
void Trainer::write_model(const StopFlag& stop) {
    const View<float> master = engine_.weights.master;
    const std::span<const float> weights(master.data, static_cast<size_t>(master.columns));
    const auto total = static_cast<int64_t>(weights.size_bytes());
    std::atomic<int64_t> written = 0;
    auto writing = std::async(std::launch::async, [&] {
        write_model_folder(
            folder_.model(), inputs_.model, engine_.model.parameters(), weights,
            [&](int64_t bytes) { written += bytes; },
            [&](const std::filesystem::path& model) { add_companions(model); });
    });
    show_text(stop);
    WorkProgress bar = progress_.work("writing the model", "bytes");
    while (writing.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
        bar.report(written, total);
    }
    writing.get();
}

// What a model needs beside its weights to be used elsewhere.
void Trainer::add_companions(const std::filesystem::path& model) const {
    copy_tokenizer_files(inputs_.settings, model);
    if (inputs_.conversations > 0) {
        describe_chat_format(model, inputs_.settings.data.chat_format.value());
    }
}

void Trainer::finish(const StopFlag& stop) {
    progress_.watch().doing = RunWatch::Doing::finishing;
    write_model(stop);
    write_report();
}

// Keeps what is not on disk yet. A run that has done nothing has nothing to keep.
void Trainer::stop_here() {
    summary_.end = TrainSummary::End::stopped;
    const GrainLedger& ledger = engine_.sum.ledger();
    summary_.grains_of_open_window = engine_.state.window_open ? ledger.grains() - std::ssize(ledger.missing()) : 0;
    const bool is_saved = progress_.watch().saved_step == engine_.state.step || engine_.state.step == 0;
    if (summary_.grains_of_open_window > 0 || !is_saved) {
        save_checkpoint();
    }
}

TrainSummary Trainer::run(const StopFlag& stop) {
    begin(stop);
    start_ = epoch_start_ = Clock::now();
    MetricsFile metrics(folder_.metrics());
    startup_seconds_ = process_age_seconds();
    while (engine_.state.step < engine_.rules.schedule.steps && summary_.end == TrainSummary::End::done) {
        if (const auto change = plan_.reconsider()) {
            follow_plan();
            progress_.note(change->note);
        }
        const auto report =
            stop ? std::nullopt : run_step(engine_, watched_, window_from(engine_.state.position), stop);
        if (report) {
            after_step(*report, metrics, stop);
        }
        if (!report || summary_.end == TrainSummary::End::stopped) {
            metrics.sync();
            stop_here();
        }
    }
    summary_.seconds = seconds_since(start_);
    progress_.finish();
    summary_.step = engine_.state.step;
    summary_.tokens = engine_.state.tokens;
    if (summary_.end == TrainSummary::End::done) {
        finish(stop);
    }
    return summary_;
}

}  // namespace

TrainSummary train(const RunInputs& inputs, RunClaim& claim, Progress& progress, const StopFlag& stop,
                   const TrainOptions& options) {
    return Trainer(inputs, claim, progress, options).run(stop);
}

}  // namespace accrue
