#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include <glob.h>

#include "accrue/base/error.h"
#include "accrue/data/documents/document_readers.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

bool is_hidden(const fs::path& path) {
    return path.filename().string().starts_with('.');
}

// All files with a known ending in a folder and the folders in it.
Paths files_in(const fs::path& folder) {
    Paths files;
    try {
        for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::end(entry); ++entry) {
            if (is_hidden(entry->path())) {
                entry.disable_recursion_pending();
            } else if (entry->is_regular_file() && has_known_ending(entry->path())) {
                files.push_back(entry->path());
            }
        }
    } catch (const fs::filesystem_error& error) {
        throw Error(cat("cannot read the folder ", error.path1().empty() ? folder.string() : error.path1().string(),
                        ": ", error.code().message()));
    }
    std::sort(files.begin(), files.end());
    return files;
}

bool is_glob(const std::string& name) {
    return name.find_first_of("*?") != std::string::npos;
}

// What matches a pattern, sorted by bytes. The library would also read brackets and backslashes as part of a pattern.
Paths matches_of(const std::string& name) {
    std::string pattern;
    for (const char letter : name) {
        pattern += letter == '[' || letter == '\\' ? std::string{'\\', letter} : std::string{letter};
    }
    glob_t found{};
    const int result = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    Paths matches(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    if (result == GLOB_NOSPACE) {
        throw Error(cat("there is not enough memory to look for ", name));
    }
    std::sort(matches.begin(), matches.end());
    return matches;
}

Paths files_of_glob(const std::string& name) {
    Paths files;
    std::error_code unreadable;
    for (const fs::path& match : matches_of(name)) {
        if (fs::is_directory(match, unreadable)) {
            const Paths more = files_in(match);
            files.insert(files.end(), more.begin(), more.end());
        } else {
            files.push_back(match);
        }
    }
    if (files.empty()) {
        throw Error(cat("no file matches ", name));
    }
    return files;
}

Paths files_of(const std::string& name) {
    std::error_code unreadable;
    if (fs::is_directory(name, unreadable)) {
        Paths files = files_in(name);
        if (files.empty()) {
            throw Error(cat("the folder ", name, " has no file with a known ending (", kKnownEndings,
                            "). Put such files there, or name another folder."));
        }
        return files;
    }
    if (fs::exists(name, unreadable)) {
        return {name};
    }
    if (is_glob(name)) {
        return files_of_glob(name);
    }
    throw Error(cat("there is no file or folder ", name, ". Check the name."));
}

}  // namespace

Paths expand_files(const std::vector<std::string>& names) {
    Paths files;
    for (const std::string& name : names) {
        const Paths more = files_of(name);
        files.insert(files.end(), more.begin(), more.end());
    }
    return files;
}

}  // namespace accrue
