#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace accrue {

// Which rows of a table a grain reads, in the form of a LookupIndex, on the host.
struct Lookup {
    std::vector<int32_t> entries;
    std::vector<int32_t> first_place;
    std::vector<int32_t> places;

    explicit Lookup(std::span<const int32_t> ids);
    // The same, with an entry for each of `also` too, even where no place reads it.
    Lookup(std::span<const int32_t> ids, std::span<const int32_t> also);
};

}  // namespace accrue
