#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/soaking/disturbance.h"

namespace accrue::soaking {

// What a soak may do on this machine, and to which program.
struct SoakOptions {
    std::filesystem::path program;
    std::vector<Kind> kinds = all_kinds();
    bool may_trace = true;   // else only signals at random moments
    bool may_mount = false;  // else no small disks
};

// What has happened in all rounds so far.
struct Tally {
    int64_t rounds = 0;
    int64_t resumes = 0;
    std::map<Kind, int64_t> landed;

    [[nodiscard]] int64_t all_landed() const;
    // A line: how many of each kind.
    [[nodiscard]] std::string text() const;
};

struct RoundReport {
    std::string job;               // in a few words
    std::string problem;           // empty: the bits are the same, and everything is in its place
    std::vector<std::string> log;  // each command, what happened to it and how it ended
};

// Trains one random job undisturbed, and once more with disturbances and resumes, and compares. Works in the folder, which
// is left as it is at the end.
[[nodiscard]] RoundReport run_round(const SoakOptions& options, uint64_t seed, const std::filesystem::path& folder,
                                    Tally& tally);

}  // namespace accrue::soaking
