#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/soaking/disturbance.h"
#include "tests/soaking/power_cut.h"

namespace accrue::soaking {

// A process to be started.
struct Command {
    std::filesystem::path program;
    std::vector<std::string> arguments;
};

// What became of it.
struct Outcome {
    int exit_code = -1;   // 128 + signal if it ended by one
    std::string output;   // stdout and stderr together
    bool landed = false;  // was it disturbed before it ended?
    bool hung = false;    // it was still running after the limit, and was killed
    std::string where;    // the call at which it was disturbed, and how
    int64_t changes = 0;  // calls that changed files
    double seconds = 0;
    UnsyncedFiles unsynced;
};

// May a process here be stopped at its system calls by the one that started it?
[[nodiscard]] bool can_trace();

// Runs a process and disturbs it as said. `meanwhile` is called for Kind::second while the process waits at the call. Kinds
// that need no system call (small_disk) are the caller's.
[[nodiscard]] Outcome run_traced(const Command& command, const Disturbance& disturbance,
                                 const std::function<void()>& meanwhile = {});

// The same where tracing is forbidden: signals arrive at the disturbance's moment of `expected_seconds`, nothing else does.
[[nodiscard]] Outcome run_timed(const Command& command, const Disturbance& disturbance, double expected_seconds);

}  // namespace accrue::soaking
