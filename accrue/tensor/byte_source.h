#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace accrue {

// Bytes that a reader asks for piece by piece: they lie in host memory, or wherever `read` fetches them from.
class ByteSource {
public:
    // Fills `into` with the bytes from `offset` on. Called by one thread at a time for each source.
    using Read = std::function<void(int64_t offset, std::span<std::byte> into)>;

    ByteSource() = default;
    // Host memory, which must outlive the source.
    ByteSource(std::span<const std::byte> host) : size_(static_cast<int64_t>(host.size())), host_(host.data()) {}
    template <class T>
    ByteSource(const std::vector<T>& host) : ByteSource(std::as_bytes(std::span(host))) {}
    ByteSource(int64_t size, Read read) : size_(size), read_(std::move(read)) {}

    [[nodiscard]] int64_t size() const { return size_; }
    // Some of the bytes.
    [[nodiscard]] ByteSource part(int64_t offset, int64_t bytes) const;

    // Calls visit(piece) for all bytes in their order, at most `piece_bytes` at a time.
    template <class Visit>
    void for_pieces(int64_t piece_bytes, const Visit& visit) const {
        for_pieces_of(piece_bytes, std::function<void(std::span<const std::byte>)>(visit));
    }

private:
    void for_pieces_of(int64_t piece_bytes, const std::function<void(std::span<const std::byte>)>& visit) const;

    int64_t size_ = 0;
    const std::byte* host_ = nullptr;
    Read read_;
};

// All bytes at once.
[[nodiscard]] std::vector<std::byte> bytes_of(const ByteSource& source);
// A checksum (base/hash.h) of all bytes.
[[nodiscard]] std::string hash_of(const ByteSource& source);

}  // namespace accrue
