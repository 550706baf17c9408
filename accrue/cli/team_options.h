#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "accrue/assess/team_request.h"
#include "accrue/train/settings.h"

namespace accrue {

// What commands that know about several workers have in common.

// Declares --workers and --link; `workers` 0 = one process computes.
void add_team_options(CLI::App& command, int64_t& workers, std::string& link);
// What they ask for. An Error if the link is none, or of nobody.
[[nodiscard]] std::optional<TeamRequest> asked_team(int64_t workers, const std::string& link);

// The most workers that a command takes.
inline constexpr int64_t kMostWorkers = 64;

// Sums and device as several workers can have them; an Error where the settings say something else. Left open, the device is the
// processor, even where there is a GPU.
enum class GpuUse { none, left_out };
GpuUse settle_for_workers(Settings::Compute& compute);

}  // namespace accrue
