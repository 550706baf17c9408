#pragma once

#include <vector>

#include "accrue/base/pool.h"
#include "accrue/train/inputs.h"
#include "accrue/train/planner.h"

namespace accrue {

// How fast this machine does the parts of this run's step, from one grain through one layer of the model's widths with
// fewer words; of long samples from a shorter one. Takes seconds, and `room` bytes at most; where that is too little,
// typical rates.
[[nodiscard]] Rates measure_rates(const RunInputs& inputs, Pool& pool, int64_t room);

// The seconds that windows of the run take by these plans, each from one real micro-batch and one real update; of a worker that
// shares the state as they do.
[[nodiscard]] std::vector<double> measure_plans(const RunInputs& inputs, Pool& pool, const std::vector<Plan>& plans,
                                                double window_grains, const StateSharing& sharing = {});

}  // namespace accrue
