#include "accrue/data/cache/mapped_file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {

MappedFile::MappedFile(const std::filesystem::path& path) {
    const auto fail = [&] {
        throw Error(cat("cannot map ", path.string(), ": ", std::generic_category().message(errno)));
    };
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        fail();
    }
    struct stat facts {};
    void* memory = nullptr;
    int error = fstat(descriptor, &facts) == 0 ? 0 : errno;
    // Nothing can be mapped of an empty file, and nothing needs to be.
    if (error == 0 && facts.st_size > 0) {
        memory = mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
        error = memory == MAP_FAILED ? errno : 0;
    }
    close(descriptor);
    if (error != 0) {
        errno = error;
        fail();
    }
    bytes_ = {static_cast<const std::byte*>(memory), static_cast<size_t>(facts.st_size)};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) {
        munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
}

void MappedFile::note_read(size_t bytes) const {
    constexpr size_t kAround = size_t{128} << 10;  // Linux maps more than the page that is touched
    constexpr size_t kMost = size_t{256} << 10;
    const size_t touched = touched_.fetch_add(bytes + kAround, std::memory_order_relaxed) + bytes + kAround;
    if (touched > kMost) {
        touched_.store(0, std::memory_order_relaxed);
        madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
    }
}

}  // namespace accrue
