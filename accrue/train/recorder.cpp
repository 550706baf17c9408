#include "accrue/train/recorder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/process_age.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/kernels/gpus.h"
#include "accrue/model/model_folder.h"
#include "accrue/observe/metric_table.h"
#include "accrue/observe/report.h"
#include "accrue/observe/run_figures.h"
#include "accrue/train/chat_choice.h"
#include "accrue/train/engine.h"
#include "accrue/train/epoch.h"
#include "accrue/train/metrics_line.h"
#include "accrue/train/run_texts.h"
#include "accrue/train/sample_text.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/state.h"
#include "accrue/train/trained_model.h"
#include "accrue/train/watched_batches.h"

namespace accrue {

void Recorder::tell_job() const {
    const Settings& settings = run_.inputs.settings;
    const Engine& engine = run_.engine;
    run_.progress.note(fmt::format("accrue: {} parameters, {} samples of up to {} tokens",
                                   engine.model->parameters().elements(), run_.inputs.train->size(),
                                   run_.inputs.longest_sample()));
    run_.progress.note(fmt::format("window: {}, grains of {} sample(s), {} grain(s) a micro-batch, {}",
                                   window_text(settings), settings.window.grain_samples,
                                   engine.rules.micro_batch_grains, formats_text(settings)));
    if (const std::string epoch = epoch_text(settings, *run_.inputs.train); !epoch.empty()) {
        run_.progress.note(epoch);
    }
    const int64_t on_host = run_.plan.plan().host_bytes;
    run_.progress.note(fmt::format("device: {}; {}; memory planned: {}{}, {}", engine.kernels.description(),
                                   word_of(settings.compute.dtype), format_bytes(run_.plan.peak_bytes()),
                                   on_host > 0 ? cat(", and ", format_bytes(on_host), " of the machine's for ",
                                                     text_of(settings.compute.host_state))
                                               : "",
                                   text_of(run_.plan.plan())));
}

void Recorder::begin(Beginning beginning) {
    const int64_t step = run_.engine.state.step;
    const bool goes_on = beginning == Beginning::continued;
    MetricsFile::keep_steps(run_.folder.metrics(), step);
    first_step_ = step;
    run_.progress.watch().saved_step = goes_on ? step : RunWatch::kUnknown;
    run_.progress.note(fmt::format("folder: {}{}", run_.folder.root.string(),
                                   goes_on ? fmt::format(", continued from step {}", step) : std::string()));
    tell_notes();
    const Settings::Model& model = run_.inputs.settings.model;
    if (!goes_on && !model.from.empty() && model.weights == InitialWeights::fresh) {
        run_.progress.note(fresh_weights_text(model.from));
    }
}

void Recorder::tell_notes() const {
    const RunInputs& inputs = run_.inputs;
    for (const auto& [step, from, to] : run_.numerics.changes) {
        run_.progress.note(
            fmt::format("bits: since step {} those of {}, before those of {}", step, text_of(to), text_of(from)));
    }
    for (const NumericsRecord::Guest& guest : run_.numerics.guests) {
        run_.progress.note(text_of(guest));
    }
    for (const std::string& note : inputs.notes) {
        run_.progress.note(note);
    }
    for (const std::string& note : notes_on(*inputs.train, "training data")) {
        run_.progress.note(note);
    }
    for (const std::string& note :
         inputs.validation ? notes_on(*inputs.validation, "validation data") : std::vector<std::string>()) {
        run_.progress.note(note);
    }
}

std::optional<double> Recorder::validation_before() const {
    RunFigures run;
    (void)read_metrics(run_.folder.metrics(), [&](const MetricsRow& row) { run.add(row); });
    return std::isnan(run.validation_before) ? std::nullopt : std::optional(run.validation_before);
}

bool Recorder::lacks_validation() const {
    const auto line = MetricsFile::last_line(run_.folder.metrics());
    return line && line->value(Metrics::kStep.name, int64_t{-1}) == run_.engine.state.step &&
           !line->contains(Metrics::kValidationLoss.name);
}

void Recorder::add_validation(double loss) const {
    const auto line = MetricsFile::last_line(run_.folder.metrics());
    MetricsFile::replace_last_line(run_.folder.metrics(), with_validation_loss(line.value(), loss));
}

void Recorder::start() {
    start_ = epoch_start_ = Clock::now();
    metrics_.emplace(run_.folder.metrics());
    startup_seconds_ = process_age_seconds();
}

void Recorder::add_step(const StepReport& report, const Beside& beside) {
    StepSurroundings around{.validation_loss = beside.validation_loss,
                            .validation_loss_before = beside.validation_loss_before,
                            .startup_seconds = std::exchange(startup_seconds_, {})};
    if (beside.is_checkpoint) {
        around.weights_hash = run_.engine.weights_hash();
    }
    if (report.window.ends_epoch) {
        around.epoch_seconds = seconds_since(epoch_start_);
        epoch_start_ = Clock::now();
    }
    around.peak_bytes = report.team ? report.team->peak_bytes : peak_bytes();
    around.planned_bytes = run_.plan.plan().arena_bytes;
    // The line is written, and safe from a power cut, before the checkpoint: a resume cuts lines behind its checkpoint,
    // but cannot write missing ones.
    metrics_->append(metrics_line(report, around));
    if (beside.is_checkpoint) {
        metrics_->sync();
        save_checkpoint();
    }
    tell_skip(report);
    tell_step(report, around.validation_loss, around.peak_bytes);
}

// The most that this process has held of the memory that its arena lies in.
int64_t Recorder::peak_bytes() {
    const DeviceName device = device_of(run_.inputs.settings.compute).name;
    if (device.kind != DeviceKind::cuda) {
        return peak_resident_bytes();
    }
    peak_of_gpu_ = std::max(peak_of_gpu_, memory_of_gpu(device.gpu).process_bytes);
    return peak_of_gpu_;
}

void Recorder::save_checkpoint() {
    const int64_t step = run_.engine.state.step;
    const int64_t kept = run_.inputs.settings.run.keep_checkpoints;
    RunWatch& watch = run_.progress.watch();
    const DoingMeanwhile saving(watch, RunWatch::Doing::saving);
    const auto start = Clock::now();
    run_.progress.show_work(cat("writing checkpoint step-", step), "bytes", run_.pool, [&](const LongWork& work) {
        save_state(run_.engine, run_.definition, run_.folder.checkpoints(), run_.numerics, work);
    });
    watch.checkpoint_milliseconds = WatchedBatches::milliseconds_since(start);
    watch.saved_step = step;
    if (kept > 0) {
        remove_old_checkpoints(run_.folder.checkpoints(), kept, step);
    }
}

void Recorder::tell_skip(const StepReport& report) const {
    if (!report.skipped) {
        return;
    }
    std::string samples;
    if (report.bad_grain) {
        for (const int64_t sample : run_.loader.samples_of(report.window, *report.bad_grain)) {
            samples += (samples.empty() ? " (samples " : ", ") + std::to_string(sample);
        }
        samples += " of the training data)";
    }
    run_.progress.note(
        fmt::format("step {} skipped, weights unchanged: {}{}", report.step, report.skip_reason, samples));
}

void Recorder::tell_step(const StepReport& report, const std::optional<double>& validation_loss,
                         int64_t peak_bytes) const {
    const double seconds_per_step = seconds() / static_cast<double>(report.step - first_step_);
    run_.progress.report(
        {.step = report.step,
         .loss = report.loss.value_or(std::nan("")),
         .validation_loss = validation_loss,
         .tokens_per_second = static_cast<double>(report.tokens) / report.seconds,
         .updates_per_hour = 3600.0 / seconds_per_step,
         .peak_bytes = peak_bytes,
         .seconds_left = seconds_per_step * static_cast<double>(run_.engine.rules.schedule.steps - report.step)});
}

bool Recorder::finish(const StopFlag& stop) {
    run_.progress.watch().doing = RunWatch::Doing::finishing;
    const bool has_shown_text = write_model(stop);
    write_report();
    return has_shown_text;
}

// The model is written while its first text is read: both only look at the weights.
bool Recorder::write_model(const StopFlag& stop) {
    const ByteSource weights = run_.engine.weights_source();
    const int64_t total = weights.size();
    std::atomic<int64_t> written = 0;
    auto writing = std::async(std::launch::async, [&] {
        write_model_folder(
            run_.folder.model(), *run_.inputs.model, weights, [&](int64_t bytes) { written += bytes; },
            [&](const std::filesystem::path& model) { add_companions(model); });
    });
    Generator* const generator = run_.engine.model->generator();
    std::vector<int32_t> prompt = run_.text == Text::is_shown ? first_words(stop) : std::vector<int32_t>();
    const bool has_shown_text = generator != nullptr && !prompt.empty();
    if (has_shown_text) {
        show_text(*generator, run_.engine.weights_to_read(), std::move(prompt), stop);
    }
    WorkProgress bar = run_.progress.work("writing the model", "bytes");
    while (writing.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
        bar.report(written, total);
    }
    writing.get();
    return has_shown_text;
}

// What a model needs beside its weights to be used elsewhere.
void Recorder::add_companions(const std::filesystem::path& model) const {
    copy_tokenizer_files(run_.inputs.settings, model);
    if (run_.inputs.conversations > 0) {
        describe_chat_format(model, run_.inputs.settings.data.chat_format.value());
    }
}

std::vector<int32_t> Recorder::first_words(const StopFlag& stop) const {
    const RunInputs& inputs = run_.inputs;
    if (!inputs.tokenizer || stop) {
        return {};
    }
    if (inputs.settings.data.train.empty()) {
        return inputs.tokenizer->encode("Once upon a time", Special::with);
    }
    const Sample first = inputs.train->sample(0);  // which may count nothing
    return {first.tokens.begin(), first.tokens.begin() + std::min<int64_t>(16, std::ssize(first.tokens))};
}

void Recorder::show_text(Generator& generator, const Weights& weights, std::vector<int32_t> prompt,
                         const StopFlag& stop) {
    const RunInputs& inputs = run_.inputs;
    run_.progress.text("\nIt writes:\n");
    const int64_t tokens =
        shown_tokens(run_.engine.model->parameters().elements(), std::ssize(prompt), inputs.longest_sample());
    show_sample(
        generator, weights, *inputs.tokenizer,
        {.prompt = std::move(prompt), .longest = inputs.longest_sample(), .tokens = tokens},
        [this](std::string_view piece) { run_.progress.text(piece); }, stop);
    run_.progress.text("\n");
}

// Only text is lost where it can't be read again: the run is done, and all of it is on disk.
bool Recorder::show_text_of_written_model(const StopFlag& stop) try {
    std::vector<int32_t> prompt = first_words(stop);
    if (prompt.empty()) {
        return false;
    }
    const Settings& settings = run_.inputs.settings;
    TrainedModel model(run_.folder.root, run_.inputs.longest_sample(), settings.compute.threads,
                       settings.compute.device, [this](const std::string& line) { run_.progress.note(line); });
    Generator* const generator = model.model().generator();
    if (generator != nullptr) {
        show_text(*generator, model.weights(), std::move(prompt), stop);
    }
    return generator != nullptr;
} catch (const Error& error) {
    run_.progress.note(cat("The model is written, but no text of it can be shown here: ", error.what()));
    return false;
}

void Recorder::write_report() const {
    write_text(run_.folder.report(),
               report_html(run_.folder.metrics(),
                           {.title = "accrue: " + run_.folder.root.filename().string(),
                            .facts = facts_of(run_.inputs, run_.engine, run_.engine.kernels.description())}));
}

}  // namespace accrue
