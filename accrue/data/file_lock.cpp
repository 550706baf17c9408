#include "accrue/data/file_lock.h"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& waiting)
    : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    try {
        while (descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
            if (descriptor_ < 0 || (errno != EWOULDBLOCK && errno != EINTR)) {
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

// The file stays: removing it would let two processes hold two files of one name.
FileLock::~FileLock() {
    close(descriptor_);
}

}  // namespace accrue
