#pragma once

#include <filesystem>
#include <string>

#include "accrue/observe/report.h"
#include "accrue/train/engine.h"
#include "accrue/train/inputs.h"
#include "accrue/train/settings.h"

namespace accrue {

// What a run says of itself, at its start and in its report.

// "64 samples" or "524288 tokens".
[[nodiscard]] std::string window_text(const Settings& settings);
// The number formats of sums and, where they are not fp32, of moments.
[[nodiscard]] std::string formats_text(const Settings& settings);
// Why a run from a model folder begins with fresh weights.
[[nodiscard]] std::string fresh_weights_text(const std::filesystem::path& folder);
// The table at the head of a report.
[[nodiscard]] decltype(ReportFacts::facts) facts_of(const RunInputs& inputs, const Engine& engine,
                                                    const std::string& device);

}  // namespace accrue
