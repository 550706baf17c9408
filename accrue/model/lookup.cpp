#include "accrue/model/lookup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace accrue {
namespace {

constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

// An id in the upper half and where it stands in the lower one.
using Read = uint64_t;

Read read_of(int32_t id, size_t place) {
    return uint64_t{static_cast<uint32_t>(id)} << 32 | place;
}
int32_t id_of(Read read) {
    return static_cast<int32_t>(read >> 32);
}

// By id, and by place where ids are equal: digit by digit, because a device waits for this before it can begin.
std::vector<Read> sorted(std::span<const int32_t> ids) {
    std::vector<Read> reads(ids.size());
    int32_t largest = 0;
    for (size_t place = 0; place < ids.size(); ++place) {
        reads[place] = read_of(ids[place], place);
        largest = std::max(largest, ids[place]);
    }
    const int bits = std::bit_width(static_cast<uint32_t>(largest));
    std::vector<Read> next(ids.size());
    for (int bit = 0; bit < bits; bit += kDigitBits) {
        const auto digit_of = [bit](Read read) { return (read >> (32 + bit)) % kDigits; };
        std::array<size_t, kDigits> begin{};
        for (const Read read : reads) {
            ++begin[digit_of(read)];
        }
        size_t before = 0;
        for (size_t& count : begin) {
            before += std::exchange(count, before);
        }
        for (const Read read : reads) {
            next[begin[digit_of(read)]++] = read;
        }
        reads.swap(next);
    }
    return reads;
}

}  // namespace

Lookup::Lookup(std::span<const int32_t> ids) : Lookup(ids, ids) {}

Lookup::Lookup(std::span<const int32_t> ids, std::span<const int32_t> also) {
    const std::vector<Read> reads = sorted(ids);
    const std::vector<Read> named = also.data() == ids.data() && also.size() == ids.size() ? reads : sorted(also);
    for (const Read read : named) {
        if (entries.empty() || entries.back() != id_of(read)) {
            entries.push_back(id_of(read));
        }
    }
    places.reserve(reads.size());
    for (const Read read : reads) {
        places.push_back(static_cast<int32_t>(read));
    }
    size_t next = 0;
    for (const int32_t entry : entries) {
        first_place.push_back(static_cast<int32_t>(next));
        while (next < reads.size() && id_of(reads[next]) == entry) {
            ++next;
        }
    }
    first_place.push_back(static_cast<int32_t>(next));
}

}  // namespace accrue
