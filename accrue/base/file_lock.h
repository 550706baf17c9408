#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace accrue {

// A lock between processes, held until this object or the process ends, however it ends. Its file stays, unless who holds
// the lock removes it.
class FileLock {
public:
    // Waits for the lock and calls `waiting` about ten times a second meanwhile; what that throws ends the waiting.
    FileLock(const std::filesystem::path& path, const std::function<void()>& waiting);
    ~FileLock();
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

    // Writes a text into the file for those who find it locked. It is a courtesy: a failure to write it changes nothing.
    void say(std::string_view text) const;

private:
    int descriptor_ = -1;
};

}  // namespace accrue
