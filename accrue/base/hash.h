#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace accrue {

// A 128-bit checksum (XXH3) of bytes given in pieces, as 32 hexadecimal digits. Not cryptographic.
class Hasher {
public:
    Hasher();
    ~Hasher();
    void add(std::span<const std::byte> bytes);
    [[nodiscard]] std::string digest() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

[[nodiscard]] std::string hash_of(std::span<const std::byte> bytes);
// A 64-bit checksum (XXH3) as a number, for things that are many; the seed chains several of them.
[[nodiscard]] uint64_t hash64_of(std::span<const std::byte> bytes, uint64_t seed);

}  // namespace accrue
