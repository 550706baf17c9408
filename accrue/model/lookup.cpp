#include "accrue/model/lookup.h"

#include <algorithm>
#include <numeric>

namespace accrue {

Lookup::Lookup(std::span<const int32_t> ids) : Lookup(ids, ids) {}

Lookup::Lookup(std::span<const int32_t> ids, std::span<const int32_t> also)
    : entries(also.begin(), also.end()), places(ids.size()) {
    std::sort(entries.begin(), entries.end());
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
    const auto id_of = [&](int32_t place) { return ids[static_cast<size_t>(place)]; };
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), [&](int32_t a, int32_t b) { return id_of(a) < id_of(b); });
    size_t next = 0;
    for (const int32_t entry : entries) {
        first_place.push_back(static_cast<int32_t>(next));
        while (next < places.size() && id_of(places[next]) == entry) {
            ++next;
        }
    }
    first_place.push_back(static_cast<int32_t>(next));
}

}  // namespace accrue
