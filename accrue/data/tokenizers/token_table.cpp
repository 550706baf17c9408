#include "accrue/data/tokenizers/token_table.h"

#include <algorithm>
#include <bit>

// In the program itself, because a call into the library costs as much as the hash of a short word.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

uint64_t hash_of_bytes(std::string_view bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

TokenTable::TokenTable(std::span<const std::pair<std::string, int32_t>> tokens)
    : slots_(std::bit_ceil(2 * tokens.size() + 1)) {
    for (const auto& [bytes, id] : tokens) {
        const uint64_t hash = hash_of_bytes(bytes);
        if (bytes_.size() + bytes.size() > UINT32_MAX) {
            throw Error("the vocabulary's tokens have more than 4 GiB together");
        }
        slots_[place_of(bytes, hash)] = {id, static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(bytes_.size()),
                                         static_cast<uint32_t>(bytes.size())};
        bytes_ += bytes;
        longest_ = std::max(longest_, bytes.size());
    }
}

size_t TokenTable::place_of(std::string_view bytes, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    const auto high = static_cast<uint32_t>(hash >> 32);
    for (size_t place = hash & mask;; place = (place + 1) & mask) {
        const Slot& slot = slots_[place];
        if (slot.id < 0 || (slot.hash == high && std::string_view(bytes_).substr(slot.begin, slot.size) == bytes)) {
            return place;
        }
    }
}

int32_t TokenTable::find(std::string_view bytes) const {
    return bytes.size() > longest_ ? -1 : slots_[place_of(bytes, hash_of_bytes(bytes))].id;
}

}  // namespace accrue
