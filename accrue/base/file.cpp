#include "accrue/base/file.h"

#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/output_path.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view what, const fs::path& path, int error) {
    throw Error(cat("cannot ", what, " ", path.string(), ": ", write_failure_text(error)));
}

[[noreturn]] void fail_not_regular(const fs::path& path) {
    throw Error(
        cat("cannot read ", path.string(),
            ": it is a device, a pipe or a socket, and a regular file is needed. Write what it gives into a file."));
}

int open_or_fail(const fs::path& path, int flags, std::string_view what) {
    int descriptor = -1;
    do {
        descriptor = open(path.c_str(), flags | O_CLOEXEC, 0666);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) {
        fail(what, path, errno);
    }
    return descriptor;
}

// Without waiting: a pipe would be opened only when somebody writes into it, perhaps never, and no signal would end that.
int open_to_read(const fs::path& path) {
    std::error_code absent;
    if (fs::is_socket(path, absent)) {  // which cannot be opened at all
        fail_not_regular(path);
    }
    return open_or_fail(path, O_RDONLY | O_NONBLOCK, "open");
}

constexpr int64_t kPieceForDevice = int64_t{32} << 20;

// A descriptor that is closed when its scope ends, for work that a throw may leave early.
class Descriptor {
public:
    explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
    ~Descriptor() { close(descriptor_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int get() const { return descriptor_; }

private:
    int descriptor_;
};

// The size of a regular file; an error for a folder or a device, which cannot be read at any place.
int64_t size_of(int descriptor, const fs::path& path) {
    struct stat facts {};
    if (fstat(descriptor, &facts) != 0) {
        fail("read", path, errno);
    }
    if (S_ISDIR(facts.st_mode)) {
        throw Error(cat("cannot read ", path.string(), ": it is a folder, and a file is needed"));
    }
    if (!S_ISREG(facts.st_mode)) {
        fail_not_regular(path);
    }
    return facts.st_size;
}

fs::path folder_of(const fs::path& path) {
    return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

std::string write_failure_text(int error) {
    const std::string text = std::generic_category().message(error);
    return error == EFBIG
               ? text + " (the file size limit is reached: ulimit -f shows the shell's, batch systems set theirs)"
               : text;
}

InputFile::InputFile(fs::path path) : path_(std::move(path)), descriptor_(open_to_read(path_)) {
    try {
        size_ = size_of(descriptor_, path_);
    } catch (...) {
        close(descriptor_);
        throw;
    }
}

InputFile::~InputFile() {
    if (descriptor_ >= 0) {
        close(descriptor_);
    }
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(size_, other.size_);
    return *this;
}

void InputFile::read(int64_t offset, std::span<std::byte> into) const {
    const auto end_before = [&](int64_t end) {
        throw Error(
            cat("cannot read ", into.size(), " bytes at ", offset, " of ", path_.string(), ": the file ends at ", end));
    };
    if (offset < 0 || offset > std::numeric_limits<int64_t>::max() - static_cast<int64_t>(into.size())) {
        end_before(size_);
    }
    size_t done = 0;
    while (done < into.size()) {
        const int64_t place = offset + static_cast<int64_t>(done);
        const ssize_t count = pread(descriptor_, into.data() + done, into.size() - done, place);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            fail("read", path_, errno);
        }
        if (count == 0) {
            end_before(place < size_ ? place : size_);
        }
        done += static_cast<size_t>(count);
    }
}

OutputFile::OutputFile(fs::path path)
    : path_(std::move(path)), descriptor_(open_or_fail(path_, O_WRONLY | O_CREAT | O_TRUNC, "write")) {}

OutputFile::~OutputFile() {
    if (descriptor_ >= 0) {
        close(descriptor_);
    }
}

void OutputFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            fail("write", path_, errno);
        }
        bytes = bytes.subspan(static_cast<size_t>(count));
        written_ += count;
        if (written_ - passed_on_ >= kPieceForDevice) {
            pass_on();
        }
    }
}

// Starts the newest piece and waits for the one before it. A file system that cannot do that loses nothing by it; any
// other failure must be told here, because fsync will not tell it again.
void OutputFile::pass_on() {
    const auto sync = [&](int64_t first, int64_t bytes, unsigned int how) {
        const bool cannot = sync_file_range(descriptor_, first, bytes, how) != 0;
        if (cannot && errno != EINVAL && errno != ENOSYS && errno != ESPIPE && errno != EINTR) {
            fail("write", path_, errno);
        }
    };
    sync(passed_on_, written_ - passed_on_, SYNC_FILE_RANGE_WRITE);
    if (passed_on_ > 0) {
        sync(0, passed_on_, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    passed_on_ = written_;
}

void OutputFile::write(std::string_view text) {
    write(std::as_bytes(std::span(text)));
}

void OutputFile::close_synced() {
    if (fsync(descriptor_) != 0) {
        fail("write", path_, errno);
    }
    if (close(std::exchange(descriptor_, -1)) != 0) {
        fail("write", path_, errno);
    }
}

// Reads until nothing more comes instead of asking for the size: files of /proc say they have none.
std::string read_text(const fs::path& path) {
    const Descriptor file(open_to_read(path));
    (void)size_of(file.get(), path);
    std::string text;
    std::array<char, 65536> piece{};
    while (true) {
        const ssize_t count = ::read(file.get(), piece.data(), piece.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            fail("read", path, errno);
        }
        if (count == 0) {
            return text;
        }
        text.append(piece.data(), static_cast<size_t>(count));
    }
}

void write_text(const fs::path& path, std::string_view text) {
    const fs::path aside = aside_of(path);
    try {
        OutputFile file(aside);
        file.write(text);
        file.close_synced();
        if (rename(aside.c_str(), path.c_str()) != 0) {
            fail("write", path, errno);
        }
    } catch (...) {
        std::error_code ignored;
        fs::remove(aside, ignored);
        throw;
    }
    sync_folder(folder_of(path));
}

void sync_folder(const fs::path& folder) {
    const Descriptor opened(open_or_fail(folder, O_RDONLY | O_DIRECTORY, "open folder"));
    // EINVAL: a file system whose folders cannot be synced on their own has nothing to wait for.
    if (fsync(opened.get()) != 0 && errno != EINVAL) {
        fail("sync folder", folder, errno);
    }
}

void cut_file(const fs::path& path, int64_t size) {
    const Descriptor file(open_or_fail(path, O_RDWR, "cut"));
    const int64_t present = size_of(file.get(), path);
    if (size < 0 || size > present) {
        throw Error(cat("cannot cut ", path.string(), " to ", size, " bytes: it has ", present));
    }
    if (ftruncate(file.get(), size) != 0 || fsync(file.get()) != 0) {
        fail("cut", path, errno);
    }
}

}  // namespace accrue
