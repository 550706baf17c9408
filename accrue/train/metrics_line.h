#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "accrue/train/step.h"

namespace accrue {

// What a line of metrics.jsonl says besides the step itself.
struct StepSurroundings {
    std::optional<double> validation_loss = {};
    std::optional<double> validation_loss_before = {};  // before the first step, which tells it
    std::optional<std::string> weights_hash = {};
    std::optional<double> epoch_seconds = {};
    std::optional<double> startup_seconds = {};  // of the process, before its first step
    int64_t peak_bytes = 0;                      // resident, of the process so far
    int64_t planned_bytes = 0;                   // of the arena
};

// One line of metrics.jsonl. Undefined values are null; values that belong to some steps only are absent in the others.
[[nodiscard]] nlohmann::ordered_json metrics_line(const StepReport& report, const StepSurroundings& around);

// A line with the validation loss in its place, for one that was written without.
[[nodiscard]] nlohmann::ordered_json with_validation_loss(const nlohmann::ordered_json& line, double loss);

// The largest resident memory of this process so far (VmHWM).
[[nodiscard]] int64_t peak_resident_bytes();

}  // namespace accrue
