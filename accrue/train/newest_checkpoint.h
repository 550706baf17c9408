#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "accrue/checkpoint/checkpoint.h"

namespace accrue {

// The newest checkpoint in a folder of them that is as it was written, checksums compared; nothing if there is none at
// all. Newer ones that are damaged are left as they are: `note` gets a line for each, with what is wrong and which one is
// used instead. If all are damaged, an error names them. Counts bytes, of one checkpoint after the other.
[[nodiscard]] std::optional<CheckpointReader> open_newest_checkpoint(
    const std::filesystem::path& checkpoints, const std::function<void(const std::string& line)>& note,
    const LongWork& work = {});

}  // namespace accrue
