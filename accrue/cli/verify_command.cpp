#include "accrue/cli/verify_command.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/assess/compare_runs.h"
#include "accrue/assess/verify_report.h"
#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/standard_output.h"
#include "accrue/cli/team_options.h"
#include "accrue/cli/tokenizing_report.h"
#include "accrue/cli/verify_workers.h"
#include "accrue/observe/status_line.h"
#include "accrue/train/newest_checkpoint.h"
#include "accrue/train/run_folder.h"

namespace accrue {
namespace {

// Shows what goes on: each line when it is known, and on a terminal what is being done.
VerifyObserver observer_on(StatusLine& line, bool is_terminal) {
    VerifyObserver observer;
    observer.begins = [](const VerifyReport& report) { fmt::print("{}", verify_head(report)); };
    observer.works = [&line, is_terminal](const std::string& what, double done) {
        if (is_terminal) {
            line.draw({.texts = {fmt::format("{:3.0f}%", 100 * done), what}, .done = done});
        }
    };
    observer.finishes = [&line](const VerifyCase& result) {
        line.note(verify_line(result));
        flush_output();
    };
    return observer;
}

ExitCode verify_window(const VerifyCommand& command, const ProgramUnderTest& program) {
    const bool is_folder = std::filesystem::is_directory(command.source);
    const RunFolder folder{command.source};
    if (is_folder && !std::filesystem::exists(folder.settings())) {
        throw Error(cat(command.source, " holds no run.toml. Give a settings file or the folder of a run."));
    }
    const Settings settings =
        read_settings(is_folder ? folder.settings() : std::filesystem::path(command.source), command.overrides);
    const StopFlag never{false};
    TokenizingReport tokenizing(stderr);
    const RunInputs inputs = open_inputs(settings, tokenizing.callback(never));
    const auto checkpoint = is_folder ? open_newest_checkpoint(folder.checkpoints(), warn) : std::nullopt;
    const WindowRequest request{.checkpoint = checkpoint ? std::optional(checkpoint->path()) : std::nullopt,
                                .step = command.step,
                                .most_grains = command.grains};
    StatusLine line(stdout);
    const VerifyReport report = verify(inputs, request, program,
                                       command.json ? VerifyObserver{} : observer_on(line, isatty(STDOUT_FILENO) != 0));
    line.clear();
    fmt::print("{}", command.json ? to_json(report).dump(2) + "\n" : verify_tail(report));
    return report.holds() ? ExitCode::done : ExitCode::error;
}

ExitCode compare(const VerifyCommand& command, const ProgramUnderTest& program) {
    const bool shows = !command.json && isatty(STDOUT_FILENO) != 0;
    StatusLine line(stdout);
    const RunComparison comparison =
        compare_runs({command.runs[0]}, {command.runs[1]}, program, [&](const std::string& what) {
            if (shows) {
                line.draw({.texts = {"comparing: " + what}, .done = 0});
            }
        });
    line.clear();
    fmt::print("{}", command.json ? to_json(comparison).dump(2) + "\n" : to_text(comparison));
    return comparison.same() ? ExitCode::done : ExitCode::error;
}

}  // namespace

ExitCode run_verify(const VerifyCommand& command, const ProgramUnderTest& program) {
    if (command.workers > 0) {
        return verify_over_workers(command);
    }
    return command.runs.empty() ? verify_window(command, program) : compare(command, program);
}

void add_verify_command(CLI::App& app, VerifyCommand& command, ExitCode& code, const ProgramUnderTest& program) {
    auto* verify = app.add_subcommand(
        "verify", "Compute one window in many ways and compare the bits; without a file, of the default job");
    verify->add_option("source", command.source, "A settings file, or a run folder: its newest checkpoint")
        ->type_name("run.toml|FOLDER");
    verify->add_option("--set", command.overrides, "Override one setting: --set window.samples=64 (repeatable)")
        ->type_name("SECTION.KEY=VALUE")
        ->allow_extra_args(false);
    verify->add_option("--step", command.step, "The window of this optimizer step; without, the next one")
        ->check(CLI::PositiveNumber);
    verify->add_option("--grains", command.grains, "Only the first so many grains of the window, to save time")
        ->check(CLI::PositiveNumber);
    auto* workers = verify
                        ->add_option("--workers", command.workers,
                                     "Train some windows by one process and by so many workers, one of which is "
                                     "killed, and compare the files instead")
                        ->check(CLI::Range(int64_t{2}, kMostWorkers))
                        ->excludes("--step")
                        ->excludes("--grains");
    verify->add_option("--windows", command.windows, "With --workers: so many windows")
        ->capture_default_str()
        ->check(CLI::Range(int64_t{2}, int64_t{1'000'000}))
        ->needs(workers);
    verify->add_flag("--json", command.json, "Print the result as JSON");
    verify->add_option("--runs", command.runs, "Compare two run folders instead: where do they part, and why?")
        ->expected(2)
        ->type_name("FOLDER FOLDER")
        ->excludes("source")
        ->excludes("--set")
        ->excludes("--step")
        ->excludes("--grains")
        ->excludes("--workers");
    verify->footer("Exit code: 0 if everything compared is the same, 1 if not.");
    verify->callback([&code, &command, &program] { code = run_verify(command, program); });
}

}  // namespace accrue
