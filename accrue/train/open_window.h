#pragma once

#include "accrue/train/engine.h"

namespace accrue {

// Begins a window and makes its record, the same for everybody, unless it is open already: after a stop, a resume or a
// failure its sums hold some grains. An error if another window is open.
void open_window(Engine& engine, const BatchSource& data, const Window& window);

}  // namespace accrue
