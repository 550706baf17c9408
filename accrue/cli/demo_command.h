#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

#include "accrue/cli/commands.h"

namespace accrue {

// `accrue demo`: the default job, shortened, trained in several ways; one of them is killed and resumed.
struct DemoCommand {
    int64_t steps = 8;
};
[[nodiscard]] ExitCode run_demo(const DemoCommand& command);

// Declares it on the command line; `code` gets what it returns.
void add_demo_command(CLI::App& app, DemoCommand& command, ExitCode& code);

}  // namespace accrue
