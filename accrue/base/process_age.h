#pragma once

#include <filesystem>
#include <optional>

namespace accrue {

// Seconds since the system started this process, its loading and linking included, to about 10 ms; nothing where the
// system does not say. Read from /proc below `root`, so that a test can make up a process.
[[nodiscard]] std::optional<double> process_age_seconds(const std::filesystem::path& root = "/");

}  // namespace accrue
