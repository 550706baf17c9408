#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "accrue/cli/commands.h"

namespace accrue {

// `accrue work`: computes for a run that another process leads (`accrue train --workers`).
struct WorkCommand {
    std::string join;  // host:port of the leader
    std::string name;
    std::string run;
    int64_t parent = 0;  // ends with this process; 0 = with nobody
};

CLI::App* add_work_command(CLI::App& app, WorkCommand& command, ExitCode& code);

// Where a worker finds the secret that lets it join; not among its words, which every user of the machine can read.
inline constexpr const char* kTokenVariable = "ACCRUE_WORKER_TOKEN";
// What both sides must agree on.
[[nodiscard]] std::string program_version();

}  // namespace accrue
