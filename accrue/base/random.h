#pragma once

#include <cstdint>

namespace accrue {

// Random numbers are values, not state: each is a hash of what it belongs to, so nothing can depend on a thread,
// a rank or the order of calls.

// A bijection of 64 bits whose output bits each depend on all input bits (Stafford's variant 13 of the splitmix
// finalizer).
[[nodiscard]] constexpr uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return x;
}

// The hash of a sequence of numbers; (a, b) and (b, a) differ.
template <class... More>
[[nodiscard]] constexpr uint64_t mix(uint64_t first, uint64_t second, More... more) {
    const uint64_t both = mix(first + 0x9e3779b97f4a7c15ULL) ^ (second + 0xd1b54a32d192ed03ULL);
    if constexpr (sizeof...(more) == 0) {
        return mix(both);
    } else {
        return mix(mix(both), static_cast<uint64_t>(more)...);
    }
}

// 32 random bits for each of many elements that share a key, of which the lower half of `element` counts. Works in 32
// bits, so that vectors hold many (multipliers: hash-prospector's lowbias32). The key's halves come in at two places, so
// that no two keys give the same sequence, shifted.
[[nodiscard]] constexpr uint32_t random_bits(uint64_t key, uint64_t element) {
    uint32_t x = static_cast<uint32_t>(element) * 0x9e3779b9U + static_cast<uint32_t>(key);
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x += static_cast<uint32_t>(key >> 32);
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

// A number in [0, 1) with 24 random bits.
[[nodiscard]] constexpr float uniform(uint64_t hash) {
    return static_cast<float>(hash >> 40) * 0x1p-24F;
}

// A standard normal number (Box-Muller) made from one hash.
[[nodiscard]] float normal(uint64_t hash);

// A permutation of 0..size-1 that can be asked at any place without being stored (a Feistel network that walks its
// cycles).
class Permutation {
public:
    Permutation(uint64_t seed, uint64_t size);
    [[nodiscard]] uint64_t operator[](uint64_t index) const;

private:
    uint64_t seed_;
    uint64_t size_;
    int half_bits_;
};

}  // namespace accrue
