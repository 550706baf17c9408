#include "accrue/base/hash.h"

#include <new>

#include <fmt/format.h>
#include <xxhash.h>

namespace accrue {
namespace {

std::string digits_of(XXH128_hash_t hash) {
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

// Made by the library, because its state must stand at a multiple of 64 bytes.
struct Hasher::State {
    XXH3_state_t* xxh = XXH3_createState();

    State() {
        if (xxh == nullptr) {
            throw std::bad_alloc();
        }
        XXH3_128bits_reset(xxh);
    }
    ~State() { XXH3_freeState(xxh); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}

Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
    if (!bytes.empty()) {
        XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
    }
}

std::string Hasher::digest() const {
    return digits_of(XXH3_128bits_digest(state_->xxh));
}

std::string hash_of(std::span<const std::byte> bytes) {
    return digits_of(XXH3_128bits(bytes.data(), bytes.size()));
}

uint64_t hash64_of(std::span<const std::byte> bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace accrue
