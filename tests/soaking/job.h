#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tests/soaking/dice.h"

namespace accrue::soaking {

using KeyValues = std::map<std::string, std::string>;

// A training job of a fraction of a second.
struct Job {
    std::string description;
    KeyValues settings;  // those that decide its bits, and free ones to begin with; run.folder is missing
};

// Writes the model and the data of a random job into the folder.
[[nodiscard]] Job make_job(Dice& dice, const std::filesystem::path& folder);

// Settings that may change from one resume to the next without changing a bit.
[[nodiscard]] KeyValues free_settings(Dice& dice);

}  // namespace accrue::soaking
