#pragma once

#include "accrue/train/engine.h"

namespace accrue {

// Lets a device that prepares itself (kernels/device_traits.h) meet the run's largest micro-batch before the first step, with
// weights and tokens that mean nothing: products are tuned then, kernels loaded, graphs recorded, and all memory that this
// takes is taken. Leaves weights and sums that are to be overwritten. Nothing to do for other devices.
void rehearse(Engine& engine, int64_t longest_sample);

}  // namespace accrue
