#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "accrue/base/pool.h"

namespace accrue {

// What tells cheaply that a file was written to: its size and when it and its inode last changed, in nanoseconds.
struct FileState {
    int64_t size = 0;
    int64_t modified = 0;
    int64_t changed = 0;
    friend bool operator==(const FileState&, const FileState&) = default;
};
[[nodiscard]] FileState state_of(const std::filesystem::path& file);

// Checksums of files' contents. Those of files that have not changed since are taken from a list in a folder, so that
// only new files are read.
class FileContents {
public:
    // An unreadable list counts as empty.
    explicit FileContents(const std::filesystem::path& folder);
    // The checksum of each file, in order; updates the list.
    [[nodiscard]] std::vector<std::string> hashes(const std::vector<std::filesystem::path>& files, Pool& pool);

private:
    struct Known {
        FileState state;
        std::string hash;
    };

    void write_list() const;

    std::filesystem::path list_;
    // By absolute path.
    std::map<std::string, Known> known_;
};

}  // namespace accrue
