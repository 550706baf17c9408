#include "accrue/train/run_folder.h"

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"

namespace accrue {

bool RunFolder::has_checkpoints() const {
    return !survey_checkpoints(checkpoints()).empty();
}

std::optional<std::filesystem::path> RunFolder::newest_checkpoint() const {
    const auto steps = list_checkpoints(checkpoints());
    if (steps.empty()) {
        return std::nullopt;
    }
    return checkpoints() / cat("step-", steps.back());
}

}  // namespace accrue
