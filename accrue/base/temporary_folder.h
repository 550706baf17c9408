#pragma once

#include <filesystem>

namespace accrue {

// A new, empty folder in the system's place for temporary files (TMPDIR), removed with all it holds when this goes.
// Its name is its own, whatever other objects and processes do. An error if it cannot be made.
class TemporaryFolder {
public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    // Absolute and without links.
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    // What has that name in the folder.
    [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

}  // namespace accrue
