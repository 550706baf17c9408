#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "accrue/train/engine.h"

namespace accrue {

// The memory that a run's state lies in, as pieces in an order that follows from its settings and model alone: the fp32 master,
// the moments, the sums of the open window. So a piece's number and an offset name the same bytes for every engine of a run,
// wherever they lie.
[[nodiscard]] std::vector<std::span<std::byte>> state_parts(Engine& engine);
// Those of them that are there between two windows: all but the sums.
[[nodiscard]] inline size_t parts_between_windows(std::span<const std::span<std::byte>> parts) {
    return parts.size() - 1;
}

// Bytes of the state by name.
struct StatePlace {
    int64_t part = 0;
    int64_t offset = 0;
};
// Where some of an engine's memory lies in its state; nothing = elsewhere.
[[nodiscard]] std::optional<StatePlace> place_in(std::span<const std::span<std::byte>> parts,
                                                 std::span<const std::byte> bytes);

}  // namespace accrue
