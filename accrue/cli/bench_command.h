#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "accrue/assess/bench.h"
#include "accrue/cli/commands.h"

namespace accrue {

// `accrue bench`: how fast this machine trains, against how fast it could.
struct BenchCommand {
    BenchRequest request;
    std::string device = "auto";
    int64_t rounds = 2;  // processes for each kind of sums
    std::string json;    // "" = no result file
    bool overwrite = false;
    std::string child;  // what this process is to measure for its parent; "" = it is the parent
};
[[nodiscard]] ExitCode run_bench(const BenchCommand& command);

// Declares it on the command line; `code` gets what it returns.
void add_bench_command(CLI::App& app, BenchCommand& command, ExitCode& code);

}  // namespace accrue
