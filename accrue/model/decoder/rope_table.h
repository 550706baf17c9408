#pragma once

#include <vector>

#include "accrue/model/decoder/config.h"

namespace accrue {

// The angle per position of a pair of a head's numbers, scaled as the model asks.
[[nodiscard]] double rope_frequency(const RopeConfig& rope, int64_t head_size, int64_t pair);

// Cosines and sines for each position: row p holds cos[0..head/2), then sin[0..head/2). Computed in double, rounded
// once.
[[nodiscard]] std::vector<float> rope_table(const RopeConfig& rope, int64_t head_size, int64_t positions);

}  // namespace accrue
