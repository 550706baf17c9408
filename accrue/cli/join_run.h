#pragma once

#include "accrue/cli/work_command.h"

namespace accrue {

// Computes for a run that is led elsewhere until it has ended: waits for its coordinator, joins again when the connection was
// lost, and leaves politely when it is told to stop.
[[nodiscard]] ExitCode join_run(const WorkCommand& command);

}  // namespace accrue
