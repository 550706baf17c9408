#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "accrue/cli/commands.h"

namespace accrue {

struct AdviseCommand {
    std::string settings_file;
    std::vector<std::string> overrides;
    std::string run;      // a run folder, for its noise scale and, without a file, its settings
    int64_t workers = 0;  // 0 = about one process alone
    std::string link;     // "1Gbit"
    bool json = false;
};

void add_advise_command(CLI::App& app, AdviseCommand& command, ExitCode& code);

}  // namespace accrue
