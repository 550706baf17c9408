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

// An Error where the settings ask for something that several workers cannot have.
void require_for_workers(const Settings::Compute& compute);
// Workers that a launcher starts compute on processors: an Error where the settings say something else. Left open, the device is the
// processor, even where there is a GPU.
void settle_for_launcher(Settings::Compute& compute);

}  // namespace accrue
