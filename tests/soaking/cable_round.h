#pragma once

#include "tests/soaking/team_round.h"

namespace accrue::soaking {

// As run_team_round(), but the leader and each worker are on machines of their own, whose cables are pulled and plugged in again
// (cable_network.h). Only the side with the leader goes on; whoever was cut off comes again.
[[nodiscard]] RoundReport run_cable_round(const TeamSoakOptions& options, uint64_t seed,
                                          const std::filesystem::path& folder, TeamTally& tally);

}  // namespace accrue::soaking
