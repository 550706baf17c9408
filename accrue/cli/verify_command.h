#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "accrue/assess/window_lab.h"
#include "accrue/cli/commands.h"

namespace accrue {

// `accrue verify`: does the law hold for this run, on this machine? Or: where do two runs part?
struct VerifyCommand {
    std::string source;  // a settings file or a run folder; "" = the default job
    std::vector<std::string> overrides;
    int64_t step = 0;
    int64_t grains = 0;
    int64_t workers = 0;  // > 0: over so many processes
    int64_t windows = 4;  // that these compute
    bool json = false;
    std::vector<std::string> runs;  // two folders to compare instead
};
[[nodiscard]] ExitCode run_verify(const VerifyCommand& command, const ProgramUnderTest& program);

// Declares it on the command line; `code` gets what it returns.
void add_verify_command(CLI::App& app, VerifyCommand& command, ExitCode& code, const ProgramUnderTest& program);

}  // namespace accrue
