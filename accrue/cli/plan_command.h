#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "accrue/cli/commands.h"

namespace accrue {

struct PlanCommand {
    std::string settings_file;
    std::vector<std::string> overrides;
    std::string memory;
    std::string price;    // "2.5/h"
    int64_t workers = 0;  // 0 = one process computes
    std::string link;     // "1Gbit"
    bool measures = false;
    bool typical = false;
    bool json = false;
};

void add_plan_command(CLI::App& app, PlanCommand& command, ExitCode& code);

}  // namespace accrue
