#include "accrue/train/trainer.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/engine.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/initial_weights.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/newest_checkpoint.h"
#include "accrue/train/recorder.h"
#include "accrue/train/rehearsal.h"
#include "accrue/train/run_facts.h"
#include "accrue/train/state.h"
#include "accrue/train/team/team_leader.h"
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
          team_(options.team),
          pool_(static_cast<int>(inputs.settings.compute.threads)),
          plan_(settings_of_plan(), inputs.model, inputs.longest_sample(), threads_of_plan(), options.memory,
                memory_of_machine, team_ == nullptr ? StateSharing{} : team_->sharing_of(inputs.settings)),
          numerics_{.now = numerics_of(inputs.settings, *inputs.model, inputs.train->longest(), pool_), .changes = {}},
          arena_(make_memory(), memory_for_state()),
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
                     .progress = progress,
                     .text = team_ == nullptr ? Recorder::Text::is_shown : Recorder::Text::is_left_out}) {
        follow_plan();
    }

    TrainSummary run(const StopFlag& stop);

private:
    // Of this process, or of each worker.
    [[nodiscard]] Settings settings_of_plan() const;
    [[nodiscard]] int threads_of_plan() const;
    [[nodiscard]] std::unique_ptr<Backing> make_memory() const;
    [[nodiscard]] std::unique_ptr<Backing> memory_for_state();
    [[nodiscard]] std::unique_ptr<Kernels> make_kernels_in_memory();
    void follow_plan();
    void begin(const StopFlag& stop);
    void load_checkpoint();
    // Is there a checkpoint of this run?
    [[nodiscard]] bool goes_on() const { return claim_.goes_on() || (has_begun_ && folder_.has_checkpoints()); }
    void load_weights();
    void go_back_to_checkpoint();
    void evaluate_first(const StopFlag& stop);
    template <class Action>
    void unless_state_is_lost(const Action& action);
    void note_guests();
    void take_step(const StopFlag& stop);
    void take_steps(const StopFlag& stop);
    [[nodiscard]] std::optional<StepReport> step(const StopFlag& stop);
    void evaluate_what_was_left(const StopFlag& stop);
    void stop_here();
    [[nodiscard]] Window window_from(const DataPosition& position) const {
        return loader_.window_from(position, engine_.rules.window);
    }
    [[nodiscard]] bool is_due(int64_t every, int64_t step) const {
        return step == engine_.rules.schedule.steps || (every > 0 && step % every == 0);
    }
    [[nodiscard]] bool evaluates() const { return inputs_.validation && inputs_.settings.run.evaluate_steps != 0; }
    // What every worker has room for: on other machines, and on a GPU, which each measures itself, nobody here knows more than
    // that it can do one.
    [[nodiscard]] int64_t grains_to_evaluate() const {
        const bool is_known = team_ == nullptr || (team_->machines() == TeamLeader::Machines::this_one &&
                                                   engine_device() != DeviceKind::cuda);
        return is_known ? engine_.rules.micro_batch_grains : 1;
    }
    [[nodiscard]] DeviceKind engine_device() const { return device_of(inputs_.settings.compute).name.kind; }
    [[nodiscard]] std::optional<double> validation_loss(const StopFlag& stop);
    void after_step(const StepReport& report, const StopFlag& stop);

    const RunInputs& inputs_;
    RunClaim& claim_;
    const RunFolder& folder_;
    Progress& progress_;
    TrainOptions options_;
    TeamLeader* team_;  // whose workers compute; nothing: this process does
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
    bool has_begun_ = false;  // the folder is this run's
    nlohmann::ordered_json beginning_ = facts_json(engine_);
};

Settings Trainer::settings_of_plan() const {
    const Settings settings = settings_to_plan(inputs_);
    return team_ == nullptr ? settings : team_->settings_of_worker(settings, *inputs_.model);
}

int Trainer::threads_of_plan() const {
    return team_ == nullptr ? pool_.threads() : static_cast<int>(settings_of_plan().compute.threads);
}

// None, where workers compute: the engine only says what the state is.
std::unique_ptr<Backing> Trainer::make_memory() const {
    return team_ == nullptr ? make_backing(device_of(inputs_.settings.compute), plan_.address_bytes())
                            : make_dry_backing();
}

// Of the host, for state that a GPU has no room for; nothing where there is no such state.
std::unique_ptr<Backing> Trainer::memory_for_state() {
    const int64_t bytes = plan_.plan().host_bytes;
    if (bytes == 0) {
        return nullptr;
    }
    if (team_ != nullptr) {
        return make_dry_backing();
    }
    return progress_.show_work("taking memory of the host", "bytes", pool_, [&](const LongWork& work) {
        return make_host_part(device_of(inputs_.settings.compute), bytes, work);
    });
}

// Memory that is there before the first use of it: to get it can take longer than all that follows.
std::unique_ptr<Kernels> Trainer::make_kernels_in_memory() {
    if (team_ != nullptr) {
        return team_->make_kernels(arena_);
    }
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

void Trainer::load_weights() {
    if (goes_on()) {
        load_checkpoint();
        return;
    }
    progress_.show_work(starts_fresh(inputs_.settings.model) ? "preparing weights" : "reading the model", "bytes",
                        pool_, [&](const LongWork& work) { load_initial_weights(engine_, inputs_.settings, work); });
    restore_facts(engine_, beginning_, "the beginning");
}

void Trainer::begin(const StopFlag& stop) {
    recorder_.tell_job();
    if (team_ == nullptr) {
        rehearse(engine_, inputs_.longest_sample());
        load_weights();
    } else {
        team_->begin({.inputs = inputs_,
                      .loader = loader_,
                      .numerics = numerics_.now,
                      .stop = stop,
                      .name = folder_.root.string(),
                      .note = [this](const std::string& line) { progress_.note(line); }},
                     engine_);
        team_->fill(engine_, [this] { load_weights(); });
    }
    const bool is_continued = goes_on();
    claim_.begin(inputs_.settings);
    has_begun_ = true;
    recorder_.begin(is_continued ? Recorder::Beginning::continued : Recorder::Beginning::fresh);
    unless_state_is_lost([&] { evaluate_first(stop); });
    progress_.watch().doing = RunWatch::Doing::adding;
}

void Trainer::evaluate_first(const StopFlag& stop) {
    if (engine_.state.step > 0) {
        summary_.validation_before = recorder_.validation_before();
        evaluate_what_was_left(stop);
    } else if ((summary_.validation_before = validation_loss(stop))) {
        progress_.first_validation(*summary_.validation_before);
    }
}

// Where it is lost, goes back, and then does the same again.
template <class Action>
void Trainer::unless_state_is_lost(const Action& action) {
    while (true) {
        try {
            action();
            return;
        } catch (const StateLost&) {
            go_back_to_checkpoint();
        }
    }
}

// Time is lost, no bit: what was done since is done again.
void Trainer::go_back_to_checkpoint() {
    if (!team_->is_state_lost()) {
        return;
    }
    progress_.note(cat("All workers that had the state of the run are gone: it goes on from ",
                       goes_on() ? "the last checkpoint" : "the start", "."));
    team_->fill(engine_, [this] { load_weights(); });
    recorder_.begin(goes_on() ? Recorder::Beginning::continued : Recorder::Beginning::fresh);
    recorder_.start();
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
    const int64_t at_once = grains_to_evaluate() * engine_.rules.window.grain_samples;
    const auto result = progress_.show_work("validating", "samples", pool_, [&](const LongWork& work) {
        if (team_ != nullptr) {
            return team_->evaluate(*inputs_.validation, at_once, stop, work.told);
        }
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
    options_.before_writing(report.step);
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
        options_.before_writing(engine_.state.step);
        recorder_.save_checkpoint();
    }
}

// Before anything that they have computed is on disk.
void Trainer::note_guests() {
    const auto known = [this](const NumericsRecord::Guest& guest) {
        return std::ranges::any_of(numerics_.guests, [&](const auto& each) { return each.numerics == guest.numerics; });
    };
    for (const NumericsRecord::Guest& guest :
         team_ == nullptr ? std::vector<NumericsRecord::Guest>() : team_->guests()) {
        if (!known(guest)) {
            numerics_.guests.push_back(guest);
            progress_.note(text_of(guest));
        }
    }
}

void Trainer::take_step(const StopFlag& stop) {
    if (const auto change = team_ == nullptr ? plan_.reconsider() : std::nullopt) {
        follow_plan();
        progress_.note(change->note);
    }
    auto report = step(stop);
    note_guests();
    if (report) {
        report->is_mixed = !numerics_.guests.empty();
        after_step(*report, stop);
    }
    if (!report || summary_.end == TrainSummary::End::stopped) {
        recorder_.sync();
        stop_here();
    }
}

// Nothing if it was stopped.
std::optional<StepReport> Trainer::step(const StopFlag& stop) {
    const Window window = window_from(engine_.state.position);
    return team_ == nullptr ? run_step(engine_, watched_, window, stop) : team_->step(engine_, window, stop);
}

void Trainer::take_steps(const StopFlag& stop) {
    while (engine_.state.step < engine_.rules.schedule.steps && summary_.end == TrainSummary::End::done) {
        take_step(stop);
    }
    summary_.seconds = recorder_.seconds();
    progress_.finish();
    if (summary_.end == TrainSummary::End::done) {
        options_.before_writing(engine_.state.step);
        summary_.has_shown_text = recorder_.finish(stop);
    }
}

TrainSummary Trainer::run(const StopFlag& stop) {
    begin(stop);
    recorder_.start();
    unless_state_is_lost([&] { take_steps(stop); });
    summary_.step = engine_.state.step;
    summary_.tokens = engine_.state.tokens;
    if (team_ != nullptr) {
        team_->end(summary_.end == TrainSummary::End::done ? TeamLeader::How::done : TeamLeader::How::stopped);
        summary_.has_shown_text = summary_.end == TrainSummary::End::done && recorder_.show_text_of_written_model(stop);
    }
    return summary_;
}

}  // namespace

TrainSummary train(const RunInputs& inputs, RunClaim& claim, Progress& progress, const StopFlag& stop,
                   const TrainOptions& options) {
    return Trainer(inputs, claim, progress, options).run(stop);
}

}  // namespace accrue
