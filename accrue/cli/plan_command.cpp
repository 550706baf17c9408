#include "accrue/cli/plan_command.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/assess/plan_report.h"
#include "accrue/base/error.h"
#include "accrue/cli/team_options.h"
#include "accrue/cli/tokenizing_report.h"
#include "accrue/kernels/gpus.h"
#include "accrue/train/engine.h"

namespace accrue {
namespace {

std::optional<double> price_of(const std::string& text) {
    if (text.empty()) {
        return std::nullopt;
    }
    double price = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, price);
    const std::string_view unit(rest, static_cast<size_t>(end - rest));
    if (fault != std::errc() || price < 0 || (unit != "/h" && !unit.empty())) {
        throw Error(cat("--price must be the price of an hour, like 2.5/h, but is \"", text, "\"."));
    }
    return price;
}

// A plan can be made for a GPU of another machine, of which nothing can be asked.
bool is_on_absent_gpu(const Settings& settings) {
    const DeviceName device = device_of(settings.compute).name;
    return device.kind == DeviceKind::cuda && device.gpu >= std::ssize(gpus_of_machine().found);
}

MemoryBound memory_of_absent_gpu(const Settings& settings) {
    if (!settings.compute.memory) {
        const Gpus gpus = gpus_of_machine();
        throw Error(cat("compute.device is \"", text_of(*settings.compute.device), "\", and on this machine ",
                        gpus.found.empty() ? gpus.why_none : cat("there are only ", gpus.found.size(), " GPU(s)"),
                        ". To plan for a GPU elsewhere, say how much memory it has: --memory 24GiB."));
    }
    return {.bytes = std::numeric_limits<int64_t>::max(),
            .reason = "",
            .address_bytes = std::numeric_limits<int64_t>::max(),
            .pressure = 0};
}

ExitCode run_plan(const PlanCommand& command) {
    const std::optional<TeamRequest> team = asked_team(command.workers, command.link);
    std::vector<std::string> overrides = command.overrides;
    if (!command.memory.empty()) {
        overrides.push_back(cat("compute.memory=\"", command.memory, "\""));
    }
    PlanRequest request{.price_per_hour = price_of(command.price),
                        .measures = command.measures,
                        .typical = command.typical,
                        .team = team};
    const StopFlag never{false};
    TokenizingReport tokenizing(stderr);
    Settings settings = read_settings(command.settings_file, overrides);
    if (team) {
        require_for_workers(settings.compute);
    }
    const RunInputs inputs = open_inputs(std::move(settings), command.json ? nullptr : tokenizing.callback(never),
                                         known_families(), DeviceUse::plan);
    const bool is_elsewhere = is_on_absent_gpu(inputs.settings);
    request.typical = request.typical || is_elsewhere;
    if (!is_elsewhere) {
        request.host = memory_of_machine();
    }
    const PlanFindings findings = find_plans(inputs,
                                             is_elsewhere ? memory_of_absent_gpu(inputs.settings)
                                                          : memory_of_device(device_of(inputs.settings.compute).name),
                                             request);
    fmt::print("{}", command.json ? plan_json(findings).dump(2) + "\n" : plan_text(findings));
    return findings.chosen ? ExitCode::done : ExitCode::error;
}

}  // namespace

void add_plan_command(CLI::App& app, PlanCommand& command, ExitCode& code) {
    auto* plan = app.add_subcommand("plan", "Say what memory and time a run will take, and what would change them");
    plan->add_option("settings", command.settings_file, "A TOML file with settings; without, the default job")
        ->type_name("run.toml");
    plan->add_option("--set", command.overrides, "Override one setting: --set window.samples=64 (repeatable)")
        ->type_name("SECTION.KEY=VALUE")
        ->allow_extra_args(false);
    plan->add_option("--memory", command.memory, "The most the run may hold: 16GiB (the same as compute.memory)")
        ->type_name("SIZE");
    plan->add_option("--price", command.price, "What an hour of this machine costs: 2.5/h")->type_name("PRICE/h");
    add_team_options(*plan, command.workers, command.link);
    plan->add_flag("--measure", command.measures, "Run real micro-batches of the chosen plan and of its cuts too");
    plan->add_flag("--typical", command.typical, "Measure nothing: predict the speed of an ordinary processor or GPU");
    plan->add_flag("--json", command.json, "Print JSON instead of text");
    plan->footer("Exit code: 0 if a plan fits, 1 if none does.");
    plan->callback([&] { code = run_plan(command); });
}

}  // namespace accrue
