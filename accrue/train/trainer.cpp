#include "accrue/train/trainer.h"

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/engine.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/initial_weights.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/newest_checkpoint.h"
#include "accrue/train/recorder.h"
#include "accrue/train/rehearsal.h"
#include "accrue/train/state.h"
#include "accrue/train/watched_batches.h"

namespace accrue {
namespace {

// A run that cannot compute a finite gradient three times in a row will not recover by itself.
constexpr int64_t kMostSkipsInARow = 3;

// One run in this process: built once, then stepped. What it leaves on disk and shows is the recorder's.
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
          numerics_{.now = numerics_of(inputs.settings, *inputs.model, inputs.train->longest(), pool_), .changes = {}},
          arena_(make_backing(device_of(inputs.settings.compute), plan_.address_bytes()), memory_for_state()),
          kernels_(make_kernels_in_memory()),
          engine_(inputs.settings, inputs.model, inputs.longest_sample(), *kernels_, plan_.plan().choices),
          loader_(*inputs.train, sample_order_of(inputs.settings, inputs.train->size())),
          batches_(loader_, [this](const DataPosition& position) { return window_from(position); }),
          watched_(batches_, progress.watch()),
          definition_(definition_of(inputs, engine_.model->parameters())),
          recorder_({.inputs = inputs,
                     .folder = folder_,
                     .plan = plan_,
                     .definition = definition_,
                     .numerics = numerics_,
                     .engine = engine_,
                     .loader = loader_,
                     .pool = pool_,
                     .progress = progress}) {
        follow_plan();
    }

    TrainSummary run(const StopFlag& stop);

private:
    [[nodiscard]] std::unique_ptr<Backing> memory_for_state();
    [[nodiscard]] std::unique_ptr<Kernels> make_kernels_in_memory();
    void follow_plan();
    void begin(const StopFlag& stop);
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
    void after_step(const StepReport& report, const StopFlag& stop);

    const RunInputs& inputs_;
    RunClaim& claim_;
    const RunFolder& folder_;
    Progress& progress_;
    TrainOptions options_;
    Pool pool_;
    PlanChoice plan_;
    NumericsRecord numerics_;
    Arena arena_;
    std::unique_ptr<Kernels> kernels_;
    Engine engine_;
    Loader loader_;
    LoadAhead batches_;
    WatchedBatches watched_;
    std::string definition_;
    Recorder recorder_;
    TrainSummary summary_;
};

// Of the host, for state that a GPU has no room for; nothing where there is no such state.
std::unique_ptr<Backing> Trainer::memory_for_state() {
    const int64_t bytes = plan_.plan().host_bytes;
    if (bytes == 0) {
        return nullptr;
    }
    return progress_.show_work("taking memory of the host", "bytes", pool_, [&](const LongWork& work) {
        return make_host_part(device_of(inputs_.settings.compute), bytes, work);
    });
}

// Memory that is there before the first use of it: to get it can take longer than all that follows.
std::unique_ptr<Kernels> Trainer::make_kernels_in_memory() {
    arena_.keep(plan_.plan().arena_bytes);
    progress_.show_work("taking memory", "bytes", pool_, [&](const LongWork& work) { arena_.touch(work); });
    return make_kernels(device_of(inputs_.settings.compute), pool_, arena_);
}

// Between any two windows; nothing of it changes a bit.
void Trainer::follow_plan() {
    const Plan& plan = plan_.plan();
    engine_.choose(plan.choices);
    engine_.rules.micro_batch_grains = plan.micro_batch_grains;
    arena_.keep(plan.arena_bytes);
}

// Everything that may speak against continuing from here is found before the run's files are touched.
void Trainer::load_checkpoint() {
    std::vector<std::string> notes;  // until the bar is gone
    const auto checkpoint = progress_.show_work("checking the checkpoint", "bytes", pool_, [&](const LongWork& work) {
        return open_newest_checkpoint(
            folder_.checkpoints(), [&](const std::string& line) { notes.push_back(line); }, work);
    });
    for (const std::string& line : notes) {
        progress_.note(line);
    }
    progress_.show_work("reading the checkpoint", "bytes", pool_,
                        [&](const LongWork& work) { load_state(engine_, definition_, checkpoint.value(), work); });
    numerics_ = continued_numerics(numerics_of_checkpoint(checkpoint->path()), numerics_.now, engine_.state.step,
                                   options_.other_bits);
    if (engine_.rules.schedule.steps < engine_.state.step) {
        throw Error(cat("schedule.steps is ", engine_.rules.schedule.steps, ", but ", folder_.root.string(),
                        " has done ", engine_.state.step, " steps already. Set schedule.steps to at least that."));
    }
}

void Trainer::begin(const StopFlag& stop) {
    recorder_.tell_job();
    const bool goes_on = claim_.goes_on();
    rehearse(engine_, inputs_.longest_sample());
    if (goes_on) {
        load_checkpoint();
    } else {
        progress_.show_work(starts_fresh(inputs_.settings.model) ? "preparing weights" : "reading the model", "bytes",
                            pool_,
                            [&](const LongWork& work) { load_initial_weights(engine_, inputs_.settings, work); });
    }
    claim_.begin(inputs_.settings);
    recorder_.begin(goes_on ? Recorder::Beginning::continued : Recorder::Beginning::fresh);
    if (engine_.state.step > 0) {
        summary_.validation_before = recorder_.validation_before();
        evaluate_what_was_left(stop);
    } else if ((summary_.validation_before = validation_loss(stop))) {
        progress_.first_validation(*summary_.validation_before);
    }
    progress_.watch().doing = RunWatch::Doing::adding;
}

// A stop during a step's validation left its line without the loss, which an undisturbed run's has.
void Trainer::evaluate_what_was_left(const StopFlag& stop) {
    if (!evaluates() || !is_due(inputs_.settings.run.evaluate_steps, engine_.state.step) ||
        !recorder_.lacks_validation()) {
        return;
    }
    if (const auto loss = validation_loss(stop)) {
        recorder_.add_validation(*loss);
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
    const auto result = progress_.show_work("validating", "samples", pool_, [&](const LongWork& work) {
        return evaluate_unless_stopped(*engine_.model, engine_.weights_to_read(), *inputs_.validation, at_once, stop,
                                       work.told);
    });
    return result ? std::optional(result->loss) : std::nullopt;
}

void Trainer::after_step(const StepReport& report, const StopFlag& stop) {
    const Settings::Run& run = inputs_.settings.run;
    watched_.pause();
    progress_.watch().micro_batch_milliseconds =
        static_cast<int64_t>(1000 * report.seconds / static_cast<double>(report.micro_batches));
    Recorder::Beside beside{.validation_loss_before = report.step == 1 ? summary_.validation_before : std::nullopt,
                            .is_checkpoint = is_due(run.checkpoint_steps, report.step)};
    if (is_due(run.evaluate_steps, report.step)) {
        beside.validation_loss = validation_loss(stop);
        summary_.validation_after = beside.validation_loss;
        if (evaluates() && !beside.validation_loss) {
            summary_.end = TrainSummary::End::stopped;
        }
    }
    recorder_.add_step(report, beside);
    summary_.loss_before = summary_.loss_before ? summary_.loss_before : report.loss;
    summary_.loss_after = report.loss ? report.loss : summary_.loss_after;
    if (engine_.state.skipped_in_a_row >= kMostSkipsInARow) {
        const std::string of_fp16 = report.loss_scale ? " If the numbers are too large for fp16, start a new run with "
                                                        "compute.dtype = \"bf16\", which has the range of fp32."
                                                      : "";
        throw Error(cat("three windows in a row were skipped because of gradients that are not finite (last: step ",
                        report.step, ", ", report.skip_reason, "). Lower optimizer.rate or look at the named samples.",
                        of_fp16));
    }
}

// Keeps what is not on disk yet. A run that has done nothing has nothing to keep.
void Trainer::stop_here() {
    summary_.end = TrainSummary::End::stopped;
    summary_.grains_of_open_window = engine_.finished_grains();
    const bool is_saved = progress_.watch().saved_step == engine_.state.step || engine_.state.step == 0;
    if (summary_.grains_of_open_window > 0 || !is_saved) {
        recorder_.save_checkpoint();
    }
}

TrainSummary Trainer::run(const StopFlag& stop) {
    begin(stop);
    recorder_.start();
    while (engine_.state.step < engine_.rules.schedule.steps && summary_.end == TrainSummary::End::done) {
        if (const auto change = plan_.reconsider()) {
            follow_plan();
            progress_.note(change->note);
        }
        const auto report = run_step(engine_, watched_, window_from(engine_.state.position), stop);
        if (report) {
            after_step(*report, stop);
        }
        if (!report || summary_.end == TrainSummary::End::stopped) {
            recorder_.sync();
            stop_here();
        }
    }
    summary_.seconds = recorder_.seconds();
    progress_.finish();
    summary_.step = engine_.state.step;
    summary_.tokens = engine_.state.tokens;
    if (summary_.end == TrainSummary::End::done) {
        summary_.has_shown_text = recorder_.finish(stop);
    }
    return summary_;
}

}  // namespace

TrainSummary train(const RunInputs& inputs, RunClaim& claim, Progress& progress, const StopFlag& stop,
                   const TrainOptions& options) {
    return Trainer(inputs, claim, progress, options).run(stop);
}

}  // namespace accrue
