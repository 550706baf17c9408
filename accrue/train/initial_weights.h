#pragma once

#include "accrue/train/engine.h"

namespace accrue {

// Does a run begin with fresh weights rather than those of model.from? An error if the folder's weights are not all there.
[[nodiscard]] bool starts_fresh(const Settings::Model& model);
// The weights before the first step: fresh ones, or those of model.from. Counts bytes.
void load_initial_weights(Engine& engine, const Settings& settings, const LongWork& work = {});

}  // namespace accrue
