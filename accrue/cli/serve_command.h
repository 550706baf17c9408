#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "accrue/cli/commands.h"

namespace accrue {

// `accrue serve`: leads a run that workers on other machines compute, or makes the certificates that they need.
struct ServeCommand {
    TrainCommand train;
    std::filesystem::path make_certificates;  // "" = leads a run
    std::vector<std::string> hosts;
};

CLI::App* add_serve_command(CLI::App& app, ServeCommand& command, ExitCode& code);

}  // namespace accrue
