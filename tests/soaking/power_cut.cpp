#include "tests/soaking/power_cut.h"

#include <optional>

#include <sys/stat.h>

#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;

std::optional<struct stat> facts_of(const fs::path& path) {
    struct stat facts {};
    const bool found = stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
    return found ? std::optional(facts) : std::nullopt;
}

std::optional<struct stat> facts_of(pid_t thread, int descriptor) {
    return facts_of(cat("/proc/", thread, "/fd/", descriptor));
}

}  // namespace

void UnsyncedFiles::note(pid_t thread, const SystemCall& call) {
    if (const int descriptor = call.written(); descriptor >= 0) {
        if (const auto facts = facts_of(thread, descriptor)) {
            const Identity file{facts->st_dev, facts->st_ino};
            if (facts->st_size == 0) {  // new or cut to nothing, maybe in the place of one that was removed
                synced_bytes_.erase(file);
                whole_bytes_.erase(file);
            }
            // A file that was there before this process began is safe up to where it ended then.
            const int64_t safe = whole_bytes_.contains(file) ? whole_bytes_[file] : facts->st_size;
            synced_bytes_.try_emplace(file, safe);
        }
    }
    if (const int descriptor = call.synced(); descriptor >= 0) {
        if (const auto facts = facts_of(thread, descriptor)) {
            const Identity file{facts->st_dev, facts->st_ino};
            synced_bytes_.erase(file);
            whole_bytes_[file] = facts->st_size;
        }
    }
}

int64_t UnsyncedFiles::lose(const fs::path& folder, Dice& dice) const {
    int64_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const auto facts = facts_of(entry.path());
        const auto found = facts ? synced_bytes_.find({facts->st_dev, facts->st_ino}) : synced_bytes_.end();
        if (found != synced_bytes_.end() && facts->st_size > found->second) {
            const int64_t left = dice.one_in(2) ? found->second : dice.between(found->second, facts->st_size - 1);
            fs::resize_file(entry.path(), static_cast<uintmax_t>(left));
            ++files;
        }
    }
    return files;
}

}  // namespace accrue::soaking
