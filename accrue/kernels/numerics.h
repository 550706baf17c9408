#pragma once

#include <cstdint>

namespace accrue {

// Which bits the kernels give: one more whenever a change gives others on any instruction set, that is whenever
// tests/expected_bits.txt changes. Checkpoints carry it, so that a run is not continued with other bits unseen.
inline constexpr int64_t kNumericsVersion = 1;

}  // namespace accrue
