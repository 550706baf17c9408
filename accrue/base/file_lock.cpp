#include "accrue/base/file_lock.h"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

int open_or_fail(const std::filesystem::path& path) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        throw Error(cat("cannot lock ", path.string(), ": ", std::generic_category().message(errno)));
    }
    return descriptor;
}

// Whoever holds a lock may remove its file. Who then gets the lock of the removed file holds nothing.
bool has_name(int descriptor, const std::filesystem::path& path) {
    struct stat held {};
    struct stat named {};
    return fstat(descriptor, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& waiting)
    : descriptor_(open_or_fail(path)) {
    try {
        while (true) {
            if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
                if (has_name(descriptor_, path)) {
                    return;
                }
                close(std::exchange(descriptor_, -1));
                descriptor_ = open_or_fail(path);
                continue;
            }
            if (errno != EWOULDBLOCK && errno != EINTR) {
                throw Error(cat("cannot lock ", path.string(), ": ", std::generic_category().message(errno)));
            }
            waiting();
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    } catch (...) {
        if (descriptor_ >= 0) {
            close(descriptor_);
        }
        throw;
    }
}

void FileLock::say(std::string_view text) const {
    if (ftruncate(descriptor_, 0) == 0) {
        (void)!pwrite(descriptor_, text.data(), text.size(), 0);
    }
}

FileLock::~FileLock() {
    close(descriptor_);
}

}  // namespace accrue
