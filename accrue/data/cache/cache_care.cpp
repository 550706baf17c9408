#include "accrue/data/cache/cache_care.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <system_error>

#include "accrue/base/file.h"
#include "accrue/base/file_lock.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr const char* kListName = "uses";

// A line each: the cache's key, then name and contents of each file. Half a pair at the end of a line counts as none.
std::vector<CacheUse> read_uses(const fs::path& list) {
    std::vector<CacheUse> uses;
    std::istringstream lines(fs::exists(list) ? read_text(list) : "");
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        CacheUse use;
        words >> use.cache;
        for (CacheUse::File file; words >> file.name >> file.contents;) {
            use.files.push_back(file);
        }
        uses.push_back(std::move(use));
    }
    return uses;
}

void write_uses(const fs::path& list, const std::vector<CacheUse>& uses) {
    std::string text;
    for (const CacheUse& use : uses) {
        text += use.cache;
        for (const CacheUse::File& file : use.files) {
            text += " " + file.name + " " + file.contents;
        }
        text += "\n";
    }
    write_text(list, text);
}

// Is one of these files known to have other contents now?
bool is_outdated(const CacheUse& use, const std::map<std::string, std::string>& contents_now) {
    return std::any_of(use.files.begin(), use.files.end(), [&](const CacheUse::File& file) {
        const auto now = contents_now.find(file.name);
        return now != contents_now.end() && now->second != file.contents;
    });
}

// What goes when the lock of a cache is free: nobody builds it or adds to it.
enum class Unwanted { leftovers, everything };

// False if somebody holds the lock.
bool remove_cache(const fs::path& folder, const std::string& key, Unwanted unwanted) {
    struct IsHeld {};
    const fs::path cache = folder / key;
    const fs::path lock_file = cache.string() + ".lock";
    try {
        const FileLock lock(lock_file, [] { throw IsHeld(); });
        std::error_code ignored;  // what cannot be removed today is tried again
        fs::remove_all(cache.string() + ".partial", ignored);
        if (unwanted == Unwanted::everything) {
            fs::remove_all(cache, ignored);
        }
        if (!fs::exists(cache)) {
            fs::remove(lock_file, ignored);
        }
        return true;
    } catch (const IsHeld&) {
        return false;
    }
}

void remove_leftovers(const fs::path& folder, const std::string& key_in_use) {
    std::set<std::string> keys;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        const fs::path name = entry.path().filename();
        const bool is_partial = entry.is_directory() && name.extension() == ".partial";
        const bool is_lock = name.extension() == ".lock" && !fs::exists(folder / name.stem());
        if ((is_partial || is_lock) && name.stem() != key_in_use) {
            keys.insert(name.stem().string());
        }
    }
    for (const std::string& key : keys) {
        (void)remove_cache(folder, key, Unwanted::leftovers);
    }
}

}  // namespace

void note_use_and_tidy(const fs::path& folder, const CacheUse& use) {
    remove_leftovers(folder, use.cache);
    const fs::path list = folder / kListName;
    std::map<std::string, std::string> contents_now;
    for (const CacheUse::File& file : use.files) {
        contents_now[file.name] = file.contents;
    }
    const auto outdated = [&](const CacheUse& other) { return is_outdated(other, contents_now); };
    const auto needs_writing = [&](const std::vector<CacheUse>& uses) {
        return std::find(uses.begin(), uses.end(), use) == uses.end() ||
               std::any_of(uses.begin(), uses.end(), outdated);
    };
    if (!needs_writing(read_uses(list))) {
        return;  // the usual case, without a lock
    }
    const FileLock lock(list.string() + ".lock", [] {});
    std::vector<CacheUse> uses = read_uses(list);
    if (std::find(uses.begin(), uses.end(), use) == uses.end()) {
        uses.push_back(use);
    }
    std::set<std::string> wanted;
    for (const CacheUse& other : uses) {
        if (!outdated(other)) {
            wanted.insert(other.cache);
        }
    }
    // An outdated use whose cache is busy stays in the list, to be tried again.
    std::erase_if(uses, [&](const CacheUse& other) {
        return outdated(other) &&
               (wanted.contains(other.cache) || remove_cache(folder, other.cache, Unwanted::everything));
    });
    write_uses(list, uses);
}

}  // namespace accrue
