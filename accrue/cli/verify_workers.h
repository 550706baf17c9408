#pragma once

#include "accrue/cli/verify_command.h"

namespace accrue {

// `accrue verify --workers`: some windows computed by this program alone, by worker processes, and by worker processes of which one
// is killed: the same file?
[[nodiscard]] ExitCode verify_over_workers(const VerifyCommand& command);

}  // namespace accrue
