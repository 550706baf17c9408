#include "tests/soaking/small_disk.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "accrue/base/error.h"

namespace accrue::soaking {

bool can_mount() {
    return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

SmallDisk::SmallDisk(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    if (mount("soak", folder_.c_str(), "tmpfs", 0, "size=4g") != 0) {
        throw Error(cat("cannot mount a tmpfs on ", folder_.string(), ": ", std::generic_category().message(errno)));
    }
}

SmallDisk::~SmallDisk() {
    umount2(folder_.c_str(), MNT_DETACH);
}

void SmallDisk::leave(int64_t bytes) const {
    struct statvfs facts {};
    if (statvfs(folder_.c_str(), &facts) != 0) {
        throw Error(cat("cannot look at ", folder_.string(), ": ", std::generic_category().message(errno)));
    }
    const auto used = static_cast<int64_t>((facts.f_blocks - facts.f_bfree) * facts.f_frsize);
    resize(cat("size=", used + bytes).c_str());
}

void SmallDisk::leave_plenty() const {
    resize("size=4g");
}

void SmallDisk::resize(const char* how) const {
    if (mount("soak", folder_.c_str(), "tmpfs", MS_REMOUNT, how) != 0) {
        throw Error(cat("cannot give ", folder_.string(), " ", how, ": ", std::generic_category().message(errno)));
    }
}

}  // namespace accrue::soaking
