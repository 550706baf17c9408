#pragma once

#include <memory>
#include <string>

#include "accrue/model/model_spec.h"
#include "accrue/train/settings.h"

namespace accrue {

// What settings with a device are opened for: to compute on it, or to plan for it, which needs no GPU.
enum class DeviceUse { compute, plan };

// Settles compute.device. One that is named must be there, where it is to compute; where none is, it is the first GPU with room
// for the job's smallest plan, else the processor. What a user should know of that is returned; most often nothing. A number
// format that the device lacks is an error. `workers`: of this machine, which share it out.
[[nodiscard]] std::string settle_device(Settings& settings, const std::shared_ptr<const ModelSpec>& model,
                                        int64_t longest_sample, DeviceUse use, int64_t workers = 1);

}  // namespace accrue
