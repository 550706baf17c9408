#include "accrue/tensor/byte_source.h"

#include <algorithm>
#include <vector>

#include "accrue/base/hash.h"

namespace accrue {
namespace {

// What is fetched at a time. Each thread that writes a file holds one such piece beside the arena, which plans count.
constexpr int64_t kFetchedBytes = int64_t{1} << 15;

}  // namespace

ByteSource ByteSource::part(int64_t offset, int64_t bytes) const {
    if (host_ != nullptr) {
        return {std::span(host_ + offset, static_cast<size_t>(bytes))};
    }
    return {bytes, [offset, read = read_](int64_t first, std::span<std::byte> into) { read(offset + first, into); }};
}

void ByteSource::for_pieces_of(int64_t piece_bytes,
                               const std::function<void(std::span<const std::byte>)>& visit) const {
    const int64_t at_once = host_ != nullptr ? piece_bytes : std::min(piece_bytes, kFetchedBytes);
    std::vector<std::byte> fetched(host_ != nullptr ? 0 : static_cast<size_t>(std::min(at_once, size_)));
    for (int64_t offset = 0; offset < size_; offset += at_once) {
        const auto count = static_cast<size_t>(std::min(at_once, size_ - offset));
        if (host_ == nullptr) {
            read_(offset, std::span(fetched).first(count));
        }
        visit(host_ != nullptr ? std::span(host_ + offset, count) : std::span<const std::byte>(fetched).first(count));
    }
}

std::vector<std::byte> bytes_of(const ByteSource& source) {
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(source.size()));
    source.for_pieces(source.size(), [&bytes](std::span<const std::byte> piece) {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    return bytes;
}

std::string hash_of(const ByteSource& source) {
    Hasher hasher;
    source.for_pieces(int64_t{1} << 20, [&hasher](std::span<const std::byte> piece) { hasher.add(piece); });
    return hasher.digest();
}

}  // namespace accrue
