#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "accrue/train/engine.h"

namespace accrue {

// What lies where of a run's state, where workers share it: the moments of a range, and its fp32 weights that only products read
// where there is a copy of them. All else is everybody's.

// Bytes of a part of the state (state_parts.h), as whoever leads the run counts it: whole tensors.
struct SharedPiece {
    static constexpr int64_t kEverywhere = -1;
    int64_t range = kEverywhere;
    int64_t offset = 0;  // in the part
    int64_t bytes = 0;
    std::span<std::byte> here = {};  // empty = not kept here
};
// All pieces of a part of weights or moments, whoever keeps them; none of a part of anything else.
[[nodiscard]] std::vector<SharedPiece> pieces_of_part(Engine& engine, int64_t part);

// Pieces of memory that follow one another.
using MemoryPieces = std::vector<std::span<std::byte>>;
[[nodiscard]] int64_t size_of(const MemoryPieces& pieces);
void download_pieces(Kernels& kernels, const MemoryPieces& pieces, int64_t first, std::span<std::byte> into);
void upload_pieces(Kernels& kernels, const MemoryPieces& pieces, int64_t first, std::span<const std::byte> from);

// What keepers alone have of a range; empty where it is not kept here.
[[nodiscard]] MemoryPieces kept_of(Engine& engine, int64_t range);
// As many bytes, kept here or not.
[[nodiscard]] int64_t kept_bytes_of(Engine& engine, int64_t range);
// Of these, the weights.
[[nodiscard]] MemoryPieces kept_weights_of(Engine& engine, int64_t range);
// What everybody has of a range, in the format that forward reads: its weights, or their copy.
[[nodiscard]] MemoryPieces read_weights_of(Engine& engine, int64_t range);

}  // namespace accrue
