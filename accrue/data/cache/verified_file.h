#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "accrue/data/cache/block_sums.h"
#include "accrue/data/cache/mapped_file.h"

namespace accrue {

// A file of a token cache seen as memory, each block of it compared with its checksum before it is first read. What does
// not match is an error that says which folder to remove. Reading is safe from several threads.
class VerifiedFile {
public:
    // The checksums of the file's first `bytes` bytes; what stands behind them is not read here.
    VerifiedFile(const std::filesystem::path& path, size_t bytes, std::vector<uint64_t> sums);

    // As those of MappedFile.
    template <class T>
    [[nodiscard]] std::span<const T> values(size_t offset, size_t count) const {
        verify(offset, count * sizeof(T));
        return file_.values<T>(offset, count);
    }
    void note_read(size_t bytes) const { file_.note_read(bytes); }
    // One value, which is not noted as read.
    template <class T>
    [[nodiscard]] const T& value(size_t offset) const {
        verify(offset, sizeof(T));
        return *reinterpret_cast<const T*>(file_.bytes().subspan(offset, sizeof(T)).data());
    }

private:
    void verify(size_t offset, size_t bytes) const {
        if (bytes == 0) {
            return;
        }
        for (size_t block = offset / kSumBlockBytes; block <= (offset + bytes - 1) / kSumBlockBytes; ++block) {
            if (!verified_[block].load(std::memory_order_relaxed)) {
                verify_block(block);
            }
        }
    }
    void verify_block(size_t block) const;

    std::filesystem::path path_;
    size_t size_;
    std::vector<uint64_t> sums_;
    // Two threads may look at the same block at once, and find the same.
    mutable std::vector<std::atomic<bool>> verified_;
    MappedFile file_;
};

}  // namespace accrue
