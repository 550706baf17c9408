#pragma once

#include <cstdint>

#include "accrue/kernels/operations.h"

// What the CUDA device takes from its arena, by formula: needs neither a toolkit nor a GPU, so that a plan for a GPU can be
// made anywhere. Each operation gets one block of so many bytes while it is asked for; 0 = none. The functions that lower
// an operation cut that block by the same code (Scratch).
namespace accrue::cuda {

// Extents, streams of launches and libraries: what the device takes when it is made.
inline constexpr int64_t kConstantBytes = int64_t{8} << 20;
inline constexpr int64_t kLibraryBytes = int64_t{32} << 20;  // cuBLASLt's workspace
inline constexpr int64_t kTotalsBytes = int64_t{32} << 20;   // column sums whose totals are made later
inline constexpr int64_t kRecordBytes = int64_t{4} << 20;    // statistics of sums, which become part of records later
[[nodiscard]] constexpr int64_t kept_bytes() {
    return kConstantBytes + kLibraryBytes + kTotalsBytes + kRecordBytes;
}

// What a plan is made for where no GPU is: the one that takes most.
inline constexpr int kUnknownArchitecture = 90;

// Everything that is not named below takes nothing.
template <class Op>
[[nodiscard]] int64_t scratch_bytes(const Op&) {
    return 0;
}
[[nodiscard]] int64_t scratch_bytes(const op::Linear& call);
[[nodiscard]] int64_t scratch_bytes(const op::LinearResidual& call);
[[nodiscard]] int64_t scratch_bytes(const op::LinearActivation& call);
[[nodiscard]] int64_t scratch_bytes(const op::LinearBackward& call);
[[nodiscard]] int64_t scratch_bytes(const op::RmsNormBackward& call);
[[nodiscard]] int64_t scratch_bytes(const op::LayerNormBackward& call);
[[nodiscard]] int64_t scratch_bytes(const op::GeluGrad& call);
[[nodiscard]] int64_t scratch_bytes(const op::AddLookupGrad& call);
[[nodiscard]] int64_t scratch_bytes(const op::SquaredNorm& call);
[[nodiscard]] int64_t scratch_bytes(const op::AddGradient& call);

// The same on a GPU of this architecture, 90 = sm_90: attention takes more where a library may compute it.
template <class Op>
[[nodiscard]] int64_t scratch_bytes(const Op& call, int /*architecture*/) {
    return scratch_bytes(call);
}
[[nodiscard]] int64_t scratch_bytes(const op::Attention& call, int architecture);
[[nodiscard]] int64_t scratch_bytes(const op::AttentionGrad& call, int architecture);

// Gradients of grains that become part of their sums, in tiles of so many elements: a tile leaves its squares and its
// largest value, which are then put together in the order of the tiles.
inline constexpr int64_t kAddTile = 4096;
struct TileStatistics {
    double squares;
    uint32_t largest;  // the bits of |value|, finite ones only
    uint32_t not_finite;
};
[[nodiscard]] constexpr int64_t add_tiles(int64_t elements) {
    return (elements + kAddTile - 1) / kAddTile;
}

}  // namespace accrue::cuda
