#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/assess/replay.h"

namespace accrue {

// Why two runs part at a step, in sentences: checkpoints whose weights differ, or the grain and tensor found by computing
// the step again in both. Without a step: only whether their newest common checkpoint differs; nothing if it does not.
[[nodiscard]] std::vector<std::string> explain_parting(const std::array<RunFolder, 2>& runs,
                                                       std::optional<int64_t> parting_step,
                                                       const ProgramUnderTest& program,
                                                       const std::function<void(const std::string& what)>& works);

}  // namespace accrue
