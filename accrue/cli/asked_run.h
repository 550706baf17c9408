#pragma once

#include <string>
#include <vector>

#include "accrue/cli/commands.h"
#include "accrue/train/settings.h"

namespace accrue {

// What `accrue train` or `accrue serve` was asked to do. Read once: the file may be another one later, and others were asked the same.
struct AskedRun {
    Settings settings;  // of a run to be continued those that are in its folder, if it has any
    std::string text;   // for comparing: the same for all who were asked the same
};
[[nodiscard]] AskedRun asked_run(const TrainCommand& command);

// What stands over the settings file.
[[nodiscard]] std::vector<std::string> overrides_of(const TrainCommand& command);

}  // namespace accrue
