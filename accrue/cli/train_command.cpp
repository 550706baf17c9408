#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/cli/asked_run.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/launched_workers.h"
#include "accrue/cli/listening.h"
#include "accrue/cli/signals.h"
#include "accrue/cli/standby.h"
#include "accrue/cli/team_options.h"
#include "accrue/cli/team_training.h"
#include "accrue/cli/tokenizing_report.h"
#include "accrue/dist/health_server.h"
#include "accrue/observe/run_figures.h"
#include "accrue/train/team/team_leader.h"
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

// With nothing to save.
class StoppedEarly final : public Error {
public:
    using Error::Error;
};

// train(), whose errors say how the run goes on.
TrainSummary train_or_tell(const RunInputs& inputs, RunClaim& claim, Progress& progress, const StopFlag& stop,
                           const TrainOptions& options, const TeamTraining& team) {
    try {
        return team.workers > 0 ? train_by_team(team, inputs, claim, progress, stop, options)
                                : train(inputs, claim, progress, stop, options);
    } catch (const StoppedWithoutWorkers&) {
        const std::string way = way_on(progress.watch(), claim.folder());
        throw StoppedEarly(way.empty() ? "Stopped before the first step. Start again with the same command."
                                       : cat("Stopped while no worker was there. ", way));
    } catch (const Error& error) {
        const std::string what = error.what();
        const std::string way = way_on(progress.watch(), claim.folder());
        throw Error(way.empty() ? what : cat(what, what.ends_with('.') ? " " : ". ", way));
    }
}

// For whoever asks how the run is.
std::string words_of(const RunWatch& watch) {
    const int64_t saved = watch.saved_step;
    const std::string words = watch.doing == RunWatch::Doing::starting ? "starting" : "leading a run";
    return saved >= 0 ? cat(words, ", newest checkpoint: step ", saved) : words;
}

struct OpenedRun {
    RunClaim claim;
    Settings settings;
};

OpenedRun open_new_run(const TrainCommand& command, const Settings& settings) {
    const Overwrite overwrite = command.overwrite ? Overwrite::yes : Overwrite::no;
    return {.claim = RunClaim::of_new_run(settings, command.settings_file, overwrite), .settings = settings};
}

OpenedRun open_continued_run(const TrainCommand& command, const std::filesystem::path& folder) {
    RunClaim claim = RunClaim::of_run(folder, command.overwrite ? Overwrite::yes : Overwrite::no);
    Settings settings = claim.settings(overrides_of(command));
    check_inputs_stay(settings, {}, claim.folder());
    if (!claim.folder().has_checkpoints()) {
        show(stdout, cat(folder.string(), " has no checkpoint yet: the run starts from the beginning\n"));
    }
    return {.claim = std::move(claim), .settings = settings};
}

// Goes on with the run in run.folder where there is one.
OpenedRun open_run_of_folder(const TrainCommand& command, const Settings& settings) {
    const RunFolder folder{settings.run.folder};
    if (settings.run.folder.empty() || !std::filesystem::exists(folder.settings())) {
        return open_new_run(command, settings);
    }
    TrainCommand continued = command;
    std::erase_if(continued.overrides, [](const std::string& each) { return each.starts_with("run.folder="); });
    return open_continued_run(continued, folder.root);
}

OpenedRun open_run(const TrainCommand& command, const Settings& settings) {
    if (command.goes_on && command.resume.empty()) {
        return open_run_of_folder(command, settings);
    }
    return command.resume.empty() ? open_new_run(command, settings) : open_continued_run(command, command.resume);
}

// The same for each that stands by, whichever led before.
Standby::Options standby_options(const TrainCommand& command, const AskedRun& asked) {
    if (!command.resume.empty() || command.overwrite) {
        throw Error(cat(
            "--etcd goes on with the run in run.folder where there is one, and begins it where there is none: leave ",
            command.overwrite ? "--overwrite" : "--resume", " out."));
    }
    const Settings& settings = asked.settings;
    if (settings.run.folder.empty()) {
        throw Error("--etcd needs run.folder, a folder that all who stand by can reach: it is also the run's name.");
    }
    return {.etcd = {.endpoints = command.etcd, .certificates = settings.workers.certificates},
            .run = settings.run.folder,
            .settings = asked.text,
            .lease_seconds = settings.workers.heartbeat_seconds};
}

// Whoever led before may still be about to let go of the folder.
OpenedRun wait_for_run(const TrainCommand& command, const Settings& asked, Standby& standby) {
    bool is_told = false;
    while (true) {
        standby.leadership().require();
        try {
            return open_run_of_folder(command, asked);
        } catch (const RunInUse& use) {
            if (!std::exchange(is_told, true)) {
                show(stdout, cat("waiting: ", use.what(), "\n"));
            }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
}

}  // namespace

ExitCode run_train(const TrainCommand& command) try {
    RunWatch watch;
    const StopMessages messages(watch);
    const StopFlag& stop = stop_on_signals();
    std::optional<HealthServer> health;
    if (!command.health.empty()) {
        health.emplace(command.health, [&] { return Health{.is_well = true, .words = words_of(watch)}; });
    }
    const AskedRun asked = asked_run(command);
    std::optional<Standby> standby;
    if (!command.etcd.empty()) {
        standby.emplace(standby_options(command, asked));
        if (!standby->lead(stop, [](const std::string& line) { show(stdout, line + "\n"); })) {
            show(stdout, "Stopped while standing by.\n");
            return ExitCode::stopped;
        }
    }
    auto [claim, settings] =
        standby ? wait_for_run(command, asked.settings, *standby) : open_run(command, asked.settings);
    if (standby && standby->leadership().ended_after() >= settings.schedule.steps) {
        show(stdout, cat("The run has ended: all its ", settings.schedule.steps, " steps are done.\n"));
        return ExitCode::done;
    }
    TeamTraining team{.workers = command.workers, .launch = command.launch};
    if (command.workers > 0) {
        require_for_workers(settings.compute);
    }
    if (command.launch) {
        settle_for_launcher(settings.compute);
    }
    if (!command.listen.empty()) {
        team.listening = listening_options(command.listen, settings.workers);
    }
    if (command.launch) {
        team.asked = asked.text;
        team.own = work_of(*command.launch, asked);
        if (team.listening->terms.token.empty()) {
            team.listening->terms.token = random_token();
        }
    }
    TrainOptions options{.other_bits = command.accept_other_bits ? OtherBits::accept : OtherBits::refuse};
    if (standby) {
        team.term = standby->leadership().term();
        options.before_writing = [&](int64_t step) { standby->leadership().commit(step); };
    }
    TokenizingReport tokenizing(stdout);
    const RunInputs inputs = open_inputs(
        settings,
        [&, tell = tokenizing.callback(stop)](const CacheProgress& progress) {
            watch.doing = progress.cache == nullptr ? RunWatch::Doing::tokenizing : RunWatch::Doing::starting;
            tell(progress);
        },
        known_families(), DeviceUse::compute, command.listen.empty() ? std::max<int64_t>(1, command.workers) : 1);
    if (stop) {
        throw StoppedWhileTokenizing();
    }
    StopMessages::name_run(claim.folder().root);
    Progress progress(stdout, isatty(STDOUT_FILENO) != 0, inputs.settings.schedule.steps, &watch);
    const TrainSummary summary = train_or_tell(inputs, claim, progress, stop, options, team);
    if (standby && summary.end == TrainSummary::End::done) {
        standby->leadership().note_end(summary.step);
    }
    show(stdout, end_text(summary, claim.folder()));
    return summary.end == TrainSummary::End::stopped ? ExitCode::stopped : ExitCode::done;
} catch (const StoppedWhileTokenizing&) {
    show(stdout, "Stopped before the first step. Start again with the same command.\n");
    return ExitCode::stopped;
} catch (const StoppedEarly& stopped) {
    show(stdout, cat("\n", stopped.what(), "\n"));
    return ExitCode::stopped;
}

}  // namespace accrue
