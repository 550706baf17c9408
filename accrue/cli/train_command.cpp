#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/signals.h"
#include "accrue/cli/team_options.h"
#include "accrue/cli/tokenizing_report.h"
#include "accrue/cli/worker_processes.h"
#include "accrue/observe/run_figures.h"
#include "accrue/train/trainer.h"

namespace accrue {
namespace {

std::string change_text(const char* what, const std::optional<double>& before, const std::optional<double>& after) {
    if (!after) {
        return "";
    }
    return before ? fmt::format("{}: {:.4f} -> {:.4f}\n", what, *before, *after)
                  : fmt::format("{}: {:.4f}\n", what, *after);
}

std::string end_text(const TrainSummary& summary, const RunFolder& folder) {
    const std::string root = folder.root.string();
    if (summary.end == TrainSummary::End::stopped && summary.step == 0 && summary.grains_of_open_window == 0) {
        return fmt::format("\nStopped before the first step.\nGo on with: accrue train --resume {}\n", root);
    }
    if (summary.end == TrainSummary::End::stopped) {
        return fmt::format(
            "\nStopped after step {}, with {} grain(s) of the next window already added. All of it is saved.\n"
            "Go on with: accrue train --resume {}\n",
            summary.step, summary.grains_of_open_window, root);
    }
    std::string text = fmt::format("\nDone: {} steps, {} tokens, {:.0f} s of training.\n", summary.step, summary.tokens,
                                   summary.seconds);
    text += change_text("training loss", summary.loss_before, summary.loss_after);
    text += change_text("validation loss", summary.validation_before, summary.validation_after);
    RunFigures run;
    (void)read_metrics(folder.metrics(), [&](const MetricsRow& row) { run.add(row); });
    if (const std::string workers = text_of(run.workers); !workers.empty()) {
        text += fmt::format("workers: {}\n", workers);
    }
    text += fmt::format("\nmodel:       {}\nreport:      {}\nmetrics:     {}\ncheckpoints: {}\nsettings:    {}\n",
                        folder.model().string(), folder.report().string(), folder.metrics().string(),
                        folder.checkpoints().string(), folder.settings().string());
    if (summary.has_shown_text) {
        text += fmt::format("try:         accrue sample {} \"Once upon a time\"\n", root);
    }
    return text;
}

// What an error that ends a run leaves of it. Before its first step there is nothing to go on from that was not there before.
std::string way_on(const RunWatch& watch, const RunFolder& folder) {
    if (watch.doing != RunWatch::Doing::adding && watch.doing != RunWatch::Doing::finishing) {
        return "";
    }
    return cat(watch.saved_step >= 0 ? cat("The last checkpoint is whole (step ", watch.saved_step, "): go on with ")
                                     : "There is no checkpoint yet: start again with ",
               "accrue train --resume ", folder.root.string());
}

TrainSummary train_by_workers(int64_t workers, const RunInputs& inputs, RunClaim& claim, Progress& progress,
                              const StopFlag& stop, TrainOptions options) {
    const int64_t threads = Pool(static_cast<int>(inputs.settings.compute.threads)).threads();
    CoordinatorDesk desk({.least_workers = workers});
    WorkerProcesses processes(desk, claim.folder().root.string(), workers);
    TeamLeader leader(desk, processes, {.workers = workers, .threads_each = std::max<int64_t>(1, threads / workers)});
    options.team = &leader;
    try {
        const TrainSummary summary = train(inputs, claim, progress, stop, options);
        processes.close();  // while the leader is there to answer
        return summary;
    } catch (...) {
        processes.close();
        throw;
    }
}

// train(), whose errors say how the run goes on.
TrainSummary train_or_tell(const RunInputs& inputs, RunClaim& claim, Progress& progress, const StopFlag& stop,
                           const TrainOptions& options, int64_t workers) {
    try {
        return workers > 0 ? train_by_workers(workers, inputs, claim, progress, stop, options)
                           : train(inputs, claim, progress, stop, options);
    } catch (const Error& error) {
        const std::string what = error.what();
        const std::string way = way_on(progress.watch(), claim.folder());
        throw Error(way.empty() ? what : cat(what, what.ends_with('.') ? " " : ". ", way));
    }
}

}  // namespace

ExitCode run_train(const TrainCommand& command) try {
    RunWatch watch;
    const StopMessages messages(watch);
    const StopFlag& stop = stop_on_signals();
    std::vector<std::string> overrides = command.overrides;
    if (!command.memory.empty()) {
        overrides.push_back("compute.memory=\"" + command.memory + "\"");
    }
    const Overwrite overwrite = command.overwrite ? Overwrite::yes : Overwrite::no;
    std::optional<RunClaim> claim;
    Settings settings;
    if (command.resume.empty()) {
        settings = read_settings(command.settings_file, overrides);
        claim.emplace(RunClaim::of_new_run(settings, command.settings_file, overwrite));
    } else {
        claim.emplace(RunClaim::of_run(command.resume, overwrite));
        settings = claim->settings(overrides);
        check_inputs_stay(settings, {}, claim->folder());
        if (!claim->folder().has_checkpoints()) {
            fmt::print("{} has no checkpoint yet: the run starts from the beginning\n", command.resume);
        }
    }
    if (command.workers > 0) {
        if (settle_for_workers(settings.compute) == GpuUse::left_out) {
            show(stdout, "Workers compute on processors only so far: the GPU is not used.\n");
        }
    }
    TokenizingReport tokenizing(stdout);
    const RunInputs inputs =
        open_inputs(settings, [&, tell = tokenizing.callback(stop)](const CacheProgress& progress) {
            watch.doing = progress.cache == nullptr ? RunWatch::Doing::tokenizing : RunWatch::Doing::starting;
            tell(progress);
        });
    if (stop) {
        throw StoppedWhileTokenizing();
    }
    StopMessages::name_run(claim->folder().root);
    Progress progress(stdout, isatty(STDOUT_FILENO) != 0, inputs.settings.schedule.steps, &watch);
    const TrainOptions options{.other_bits = command.accept_other_bits ? OtherBits::accept : OtherBits::refuse};
    const TrainSummary summary = train_or_tell(inputs, *claim, progress, stop, options, command.workers);
    show(stdout, end_text(summary, claim->folder()));
    return summary.end == TrainSummary::End::stopped ? ExitCode::stopped : ExitCode::done;
} catch (const StoppedWhileTokenizing&) {
    show(stdout, "Stopped before the first step. Start again with the same command.\n");
    return ExitCode::stopped;
}

}  // namespace accrue
