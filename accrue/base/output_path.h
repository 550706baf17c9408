#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue {

enum class Overwrite { no, yes };

// Where a command is to write, and what it must spare there.
struct OutputPlace {
    std::string option;  // by which it was named, for errors: "--output"
    std::filesystem::path path;
    std::vector<std::filesystem::path> inputs = {};  // files and folders that the command reads
    Overwrite overwrite = Overwrite::no;
};

// Asks, before any work is done, whether a file may be written there; an error says why not and what to do. What is there
// is replaced only with Overwrite::yes, and never an input, under whatever name, nor what is no regular file. Returns
// where to write: behind a link, the file it leads to.
[[nodiscard]] std::filesystem::path check_output_file(const OutputPlace& place);

// The same for a folder of files, which is replaced as a whole: so it may hold nothing but files with these names. It may
// not be an input, nor lie in one, nor hold one.
[[nodiscard]] std::filesystem::path check_output_folder(const OutputPlace& place,
                                                        const std::vector<std::string>& own_files);

// Where something is written before it is renamed to its name: beside it, hidden. Whatever has that name is ours.
[[nodiscard]] std::filesystem::path aside_of(const std::filesystem::path& path);

}  // namespace accrue
