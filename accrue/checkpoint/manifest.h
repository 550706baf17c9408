#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace accrue {

inline constexpr const char* kManifestName = "manifest.json";

// What a checkpoint should consist of: its last file to be written, so that a checkpoint with a manifest was complete.
struct Manifest {
    struct File {
        int64_t bytes = 0;
        std::string checksum;
    };
    std::map<std::string, File> files;
};

[[nodiscard]] std::string to_json(const Manifest& manifest);
// The manifest of a checkpoint's folder; nothing if there is none or if it cannot be understood.
[[nodiscard]] std::optional<Manifest> read_manifest(const std::filesystem::path& checkpoint);
// The bytes of all files together.
[[nodiscard]] int64_t bytes_of(const Manifest& manifest);
// The first file that is missing or has another size, in words; nothing if all are there.
[[nodiscard]] std::optional<std::string> missing_in(const std::filesystem::path& checkpoint, const Manifest& manifest);

}  // namespace accrue
