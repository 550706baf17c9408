#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace accrue {

// A file seen as memory, read-only: pages come from the disk when they are touched. Reading is safe from several threads.
// Pages are let go after a few reads, so that even a large file, read here and there over a long
// run, takes next to no memory of the process's own; the system may still have them when they are read again.
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
        note_read(count * sizeof(T));
        return {reinterpret_cast<const T*>(bytes_.subspan(offset, count * sizeof(T)).data()), count};
    }

    // Says that so many bytes were read somewhere, of a span that was taken before. Lets all pages go when enough of
    // them may have been touched since the last time; what is being read elsewhere comes back by itself.
    void note_read(size_t bytes) const;

private:
    std::span<const std::byte> bytes_;
    mutable std::atomic<size_t> touched_{0};
};

}  // namespace accrue
