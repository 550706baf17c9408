#pragma once

#include <memory>

#include "accrue/kernels/device.h"
#include "accrue/train/engine.h"

namespace accrue {

// What a run begins with, by its settings.

// The device.
[[nodiscard]] DeviceChoice device_of(const Settings::Compute& compute);
// The order in which it takes so many samples.
[[nodiscard]] SampleOrder sample_order_of(const Settings& settings, int64_t samples);
// Does it begin with fresh weights rather than those of model.from? An error if the folder's weights are not all there.
[[nodiscard]] bool starts_fresh(const Settings::Model& model);
// The weights before the first step: fresh ones, or those of model.from. Counts bytes.
void load_first_weights(Engine& engine, const Settings& settings, const LongWork& work = {});

}  // namespace accrue
