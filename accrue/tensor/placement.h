#pragma once

#include <cstdint>
#include <map>

namespace accrue {

// Where blocks of a range of bytes lie, and nothing of what is in them. Places are chosen by first fit, so the same
// sequence of takes gives the same places and the same high-water mark wherever the bytes lie.
class Placement {
public:
    struct Extent {
        int64_t first = 0;
        int64_t last = 0;
    };

    // The place that a block of so many bytes (at least one, rounded up to 64) gets.
    [[nodiscard]] Extent find(int64_t bytes) const;
    void take(const Extent& extent);
    // The block that begins there is free again.
    Extent give_back(int64_t first);

    [[nodiscard]] int64_t bytes_in_use() const { return in_use_; }
    // The largest extent the blocks ever had, or had since it was restarted.
    [[nodiscard]] int64_t high_water_bytes() const { return high_water_; }
    void restart_high_water();

    // Blocks that end behind a place.
    [[nodiscard]] int64_t blocks_behind(int64_t place) const;
    // Calls free(extent) for each gap between two places.
    template <class Free>
    void for_gaps(Extent within, const Free& free) const {
        for (const auto& [offset, length] : taken_) {
            if (within.first < offset && within.first < within.last) {
                free(Extent{within.first, offset < within.last ? offset : within.last});
            }
            within.first = within.first > offset + length ? within.first : offset + length;
        }
        if (within.first < within.last) {
            free(within);
        }
    }

private:
    int64_t in_use_ = 0;
    int64_t high_water_ = 0;
    std::map<int64_t, int64_t> taken_;  // offset -> bytes
};

}  // namespace accrue
