#pragma once

#include <filesystem>
#include <string>

#include "tests/soaking/job.h"
#include "tests/soaking/traced_run.h"

namespace accrue::soaking {

// Trains a job from its beginning in a folder; `changes` are settings that come before the job's own.
[[nodiscard]] Command train_command(const std::filesystem::path& program, const std::filesystem::path& run,
                                    const Job& job, const KeyValues& changes);

// Goes on with what there is.
[[nodiscard]] Command resume_command(const std::filesystem::path& program, const std::filesystem::path& run,
                                     const KeyValues& changes);

// As it could be typed.
[[nodiscard]] std::string shell_text(const Command& command);

}  // namespace accrue::soaking
