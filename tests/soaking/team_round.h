#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/soaking/round.h"
#include "tests/soaking/team_fault.h"

namespace accrue::soaking {

struct TeamSoakOptions {
    std::filesystem::path program;
    std::vector<TeamFault> kinds = all_team_faults();  // those that come twice are drawn twice as often
    bool may_cut = false;                              // else nothing happens to cables: there are none
};

// What has happened in all rounds so far.
struct TeamTally {
    int64_t rounds = 0;
    int64_t resumes = 0;
    // For each kind, how long the run stood still afterwards.
    std::map<TeamFault, std::vector<double>> pauses;

    [[nodiscard]] int64_t faults() const;
    // Some lines.
    [[nodiscard]] std::string text() const;
};

// Trains one random job by one process, undisturbed, and by workers that are killed, frozen and joined by others, and compares;
// where cables may be cut, some jobs by workers on machines of their own (cable_round.h).
// Processes and files that are left behind are a problem, and so is a run that stands still for longer than its time-outs.
[[nodiscard]] RoundReport run_team_round(const TeamSoakOptions& options, uint64_t seed,
                                         const std::filesystem::path& folder, TeamTally& tally);

}  // namespace accrue::soaking
