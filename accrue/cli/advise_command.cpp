#include "accrue/cli/advise_command.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/assess/advise.h"
#include "accrue/cli/tokenizing_report.h"
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

ExitCode run_advise(const AdviseCommand& command) {
    AdviseRequest request;
    if (!command.run.empty()) {
        request.noise = read_noise_scale(command.run);
    }
    const StopFlag never{false};
    TokenizingReport tokenizing(stderr);
    const RunInputs inputs = open_inputs(read_settings(settings_of(command), command.overrides),
                                         command.json ? nullptr : tokenizing.callback(never));
    const Advice advice = find_advice(inputs, memory_of_device(device_of(inputs.settings.compute).name), request);
    fmt::print("{}", command.json ? advice_json(advice).dump(2) + "\n" : advice_text(advice));
    return ExitCode::done;
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
    advise->add_flag("--json", command.json, "Print JSON instead of text");
    advise->callback([&] { code = run_advise(command); });
}

}  // namespace accrue
