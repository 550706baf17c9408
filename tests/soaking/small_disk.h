#pragma once

#include <cstdint>
#include <filesystem>

namespace accrue::soaking {

// Takes this process's mounts out of everybody else's sight. False where that is not allowed.
[[nodiscard]] bool can_mount();

// A file system in memory whose room can be changed, mounted on a new folder as long as this lives.
class SmallDisk {
public:
    explicit SmallDisk(std::filesystem::path folder);
    ~SmallDisk();
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

    // Room for so many bytes more than there are now.
    void leave(int64_t bytes) const;
    void leave_plenty() const;

private:
    void resize(const char* how) const;
    std::filesystem::path folder_;
};

}  // namespace accrue::soaking
