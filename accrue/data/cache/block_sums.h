#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace accrue {

// A file is checked in blocks of so many bytes, the last one as short as it is: what Linux reads around a page anyway, so
// that a sample from anywhere costs no reading of its own.
inline constexpr size_t kSumBlockBytes = size_t{128} << 10;

[[nodiscard]] constexpr size_t blocks_of(size_t bytes) {
    return (bytes + kSumBlockBytes - 1) / kSumBlockBytes;
}

// The checksums of a file's blocks, made while it is written.
class BlockSums {
public:
    void add(std::span<const std::byte> bytes);
    // Those of all that was added.
    [[nodiscard]] std::vector<uint64_t> sums() const;

private:
    std::vector<uint64_t> whole_;
    // The block that is not full yet.
    std::vector<std::byte> open_;
};

}  // namespace accrue
