#pragma once

#include "accrue/cli/commands.h"
#include "accrue/cli/launcher.h"

namespace accrue {

// `accrue train` as one of several processes that a launcher started: number 0 leads the run and lets a worker compute beside
// it, each of the others is a worker.
[[nodiscard]] ExitCode run_launched(const TrainCommand& command, const Launch& launch);

}  // namespace accrue
