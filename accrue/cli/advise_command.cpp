#include "accrue/cli/advise_command.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/assess/advise.h"
#include "accrue/assess/advise_team.h"
#include "accrue/cli/signals.h"
#include "accrue/cli/team_options.h"
#include "accrue/cli/tokenizing_report.h"
#include "accrue/cli/trial_runs.h"
#include "accrue/observe/metrics_rows.h"
#include "accrue/observe/status_line.h"
#include "accrue/train/engine.h"
#include "accrue/train/run_folder.h"

namespace accrue {
namespace {

// The file that was given; without, that of the run; without a run, none.
std::filesystem::path settings_of(const AdviseCommand& command) {
    if (!command.settings_file.empty() || command.run.empty()) {
        return command.settings_file;
    }
    const std::filesystem::path file = RunFolder{command.run}.settings();
    return std::filesystem::exists(file) ? file : std::filesystem::path();
}

// The middle one; of an even number the lower.
double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[(values.size() - 1) / 2];
}

// Of a run's windows, those that so many workers computed; the run's first one is not counted: it finds everything cold.
MeasuredTeam measured_in(const RunFolder& run, int64_t workers) {
    std::vector<double> seconds;
    std::vector<double> exchange_seconds;
    std::vector<double> exchange_bytes;
    (void)read_metrics(run.metrics(), [&](const MetricsRow& row) {
        if (row.step > 1 && row.workers == static_cast<double>(workers)) {
            seconds.push_back(row.seconds);
            exchange_seconds.push_back(row.exchange_seconds);
            exchange_bytes.push_back(row.exchange_bytes);
        }
    });
    if (seconds.empty()) {
        return {};
    }
    return {.windows = std::ssize(seconds),
            .seconds = median_of(seconds),
            .exchange_seconds = median_of(exchange_seconds),
            .exchange_bytes = median_of(exchange_bytes)};
}

// Lets worker processes of this machine train some windows. The first one is not counted: it finds everything cold. A machine
// that is too small for them is no fault of the advice, and is said in it.
MeasuredTeam measure_team(const AdviseCommand& command, const Settings& settings) {
    constexpr int64_t kWindows = 4;
    StatusLine line(stderr);
    const bool shows = !command.json && isatty(STDERR_FILENO) != 0;
    TrialRuns runs(stop_on_signals(), [&](int64_t windows) {
        if (shows) {
            line.draw({.texts = {fmt::format("{} workers: window {} of {}", command.workers,
                                             std::min(windows + 1, kWindows), kWindows)},
                       .done = static_cast<double>(windows) / static_cast<double>(kWindows)});
        }
    });
    runs.use_token_cache(token_cache_of(settings));
    const RunFolder run = runs.folder("run");
    try {
        runs.finish(words_of_train({.settings_file = settings_of(command),
                                    .overrides = command.overrides,
                                    .settings = settings,
                                    .steps = kWindows},
                                   run, command.workers),
                    run);
    } catch (const TrialFailed& failure) {
        line.clear();
        return {.fault = failure.reason()};
    }
    line.clear();
    return measured_in(run, command.workers);
}

ExitCode run_advise(const AdviseCommand& command) try {
    const std::optional<TeamRequest> team = asked_team(command.workers, command.link);
    AdviseRequest request;
    if (!command.run.empty()) {
        request.noise = read_noise_scale(command.run);
    }
    const StopFlag never{false};
    TokenizingReport tokenizing(stderr);
    Settings settings = read_settings(settings_of(command), command.overrides);
    if (team) {
        require_for_workers(settings.compute);
    }
    RunInputs inputs = open_inputs(std::move(settings), command.json ? nullptr : tokenizing.callback(never));
    const MemoryBound machine = memory_of_device(device_of(inputs.settings.compute).name);
    if (!team) {
        const Advice advice = find_advice(inputs, machine, request);
        fmt::print("{}", command.json ? advice_json(advice).dump(2) + "\n" : advice_text(advice));
        return ExitCode::done;
    }
    const Settings as_given = inputs.settings;
    if (team->link) {
        inputs.settings = settings_of_worker(*team, inputs.settings, machine, *inputs.model);
    }
    const Advice alone = find_advice(inputs, machine, request);
    TeamMeasurements measured{.here = measure_team(command, as_given)};
    if (!command.run.empty()) {
        measured.in_run = measured_in({command.run}, team->workers);
    }
    const TeamAdvice advice = find_team_advice(inputs, alone, *team, measured);
    if (command.json) {
        auto json = advice_json(alone);
        json["workers"] = team_advice_json(advice);
        fmt::print("{}\n", json.dump(2));
    } else {
        fmt::print("{}{}", team_advice_text(advice), advice_text(alone));
    }
    return ExitCode::done;
} catch (const TrialStopped&) {
    end_by_signal();
}

}  // namespace

void add_advise_command(CLI::App& app, AdviseCommand& command, ExitCode& code) {
    auto* advise =
        app.add_subcommand("advise", "Measure some grains and say what holds a run back and what would help");
    advise
        ->add_option("settings", command.settings_file,
                     "A TOML file with settings; without, the run's or the default job")
        ->type_name("run.toml");
    advise->add_option("--set", command.overrides, "Override one setting: --set window.samples=64 (repeatable)")
        ->type_name("SECTION.KEY=VALUE")
        ->allow_extra_args(false);
    advise->add_option("--run", command.run, "A run folder whose noise scale says whether the window is worth having")
        ->type_name("FOLDER");
    add_team_options(*advise, command.workers, command.link);
    advise->add_flag("--json", command.json, "Print JSON instead of text");
    advise->callback([&] { code = run_advise(command); });
}

}  // namespace accrue
