#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue {

// What a cache was made of.
struct CacheUse {
    // Checksums of a file's absolute path and of what is in it.
    struct File {
        std::string name;
        std::string contents;
        bool operator==(const File&) const = default;
    };
    std::string cache;  // its key, which is its folder's name
    std::vector<File> files;
    bool operator==(const CacheUse&) const = default;
};

// Notes what a cache is used for, in the file `uses`, and removes from the folder of caches
// - what interrupted builds have left: folders KEY.partial, and locks without a cache, that nobody holds;
// - caches that were made only of files which have other contents by now.
// A cache whose files are gone stays: they may be on a disk that is not there today. So does one that somebody builds
// at the moment, and one of the same contents with another tokenizer. Who has mapped a cache can go on reading it.
void note_use_and_tidy(const std::filesystem::path& folder, const CacheUse& use);

}  // namespace accrue
