#pragma once

#include "accrue/kernels/cuda/plan.h"
#include "accrue/kernels/device_traits.h"

namespace accrue::cuda {

// What a GPU wants, whichever it is: a plan for one can be made without it.
[[nodiscard]] constexpr DeviceTraits traits() {
    return {.most_incomplete = 64,
            .most_waiting_grains = 8,
            .waiting_tile = kAddTile,
            .waiting_tile_bytes = sizeof(TileStatistics),
            .has_narrow_logits = true,
            .has_narrow_gradients = true,
            .sums_biases_early = true,
            .loss_rows = 8192,
            .prepares = true,
            .grain_tokens = 8192,
            .micro_batch_rows = 65536};
}

}  // namespace accrue::cuda
