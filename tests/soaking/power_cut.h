#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>

#include "tests/soaking/dice.h"
#include "tests/soaking/system_call.h"
#include <sys/types.h>

namespace accrue::soaking {

// Which files a process has written to and not synced since, and how much of each is safe.
class UnsyncedFiles {
public:
    // To be told of each call that changes files, before it is made.
    void note(pid_t thread, const SystemCall& call);
    // As a power cut would: of each such file below the folder, some of what was not synced is gone. Returns how many.
    int64_t lose(const std::filesystem::path& folder, Dice& dice) const;

private:
    using Identity = std::pair<dev_t, ino_t>;
    std::map<Identity, int64_t> synced_bytes_;  // of files with unsynced bytes
    std::map<Identity, int64_t> whole_bytes_;   // of files that were synced: their size then
};

}  // namespace accrue::soaking
