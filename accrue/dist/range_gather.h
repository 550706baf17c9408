#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "accrue/dist/exchange.h"
#include "accrue/dist/gloo_wire.h"
#include "accrue/dist/lanes.h"

namespace accrue {

// Bytes that members have to all others, at once: each sends its own to each of them.
class RangeGather {
public:
    RangeGather(GlooWire& wire, const MeshOptions& options)
        : rank_(options.rank), size_(options.size), disturb_(options.disturb), wire_(wire) {}

    // The hash of each source, as it was sent or as it came.
    [[nodiscard]] std::vector<uint64_t> gather(std::span<const GatherSource> sources, const ReadSource& read,
                                               const WriteSource& write);

private:
    struct Piece {
        size_t source = 0;
        int64_t first = 0;
        int64_t bytes = 0;
    };
    [[nodiscard]] const Piece* piece_of(int64_t rank, size_t number) const;

    const int64_t rank_;
    const int64_t size_;
    const std::function<void(const Arrival&)> disturb_;
    GlooWire& wire_;
    std::vector<std::vector<Piece>> owned_;  // by rank
    Lanes lanes_;
};

}  // namespace accrue
