#pragma once

#include "accrue/train/step.h"

namespace accrue {

// Set by the first Ctrl-C or SIGTERM after this call; the second one ends the program at once.
[[nodiscard]] const StopFlag& stop_on_signals();

}  // namespace accrue
