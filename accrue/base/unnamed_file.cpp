#include "accrue/base/unnamed_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {

UnnamedFile::UnnamedFile() : descriptor_(memfd_create("accrue", MFD_CLOEXEC)) {
    if (descriptor_ < 0) {
        throw Error(cat("a file in memory could not be made: ", std::generic_category().message(errno), "."));
    }
}

UnnamedFile::UnnamedFile(UnnamedFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

UnnamedFile& UnnamedFile::operator=(UnnamedFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

UnnamedFile::~UnnamedFile() {
    if (descriptor_ >= 0) {
        close(descriptor_);
    }
}

std::filesystem::path UnnamedFile::path() const {
    return cat("/proc/self/fd/", descriptor_);
}

}  // namespace accrue
