#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace accrue {

// A file seen as memory, read-only: pages come from the disk when they are touched and can be given back at any time,
// so that even a large file takes no memory of the process's own. Reading is safe from several threads.
class MappedFile {
public:
    explicit MappedFile(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
    // `count` values that begin `offset` bytes into the file. The offset must suit the type.
    template <class T>
    [[nodiscard]] std::span<const T> values(size_t offset, size_t count) const {
        return {reinterpret_cast<const T*>(bytes_.subspan(offset, count * sizeof(T)).data()), count};
    }

private:
    std::span<const std::byte> bytes_;
};

}  // namespace accrue
