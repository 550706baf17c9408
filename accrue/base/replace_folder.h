#pragma once

#include <filesystem>
#include <functional>

namespace accrue {

// Writes a folder that appears whole or not at all: `write` fills one aside, which is synced and then takes the place of the
// one that was there; a kill at any moment leaves the old one or the new one. After a throw the old one is as it was. What a
// killed process left aside goes first.
void replace_folder(const std::filesystem::path& place, const std::function<void(const std::filesystem::path&)>& write);

}  // namespace accrue
