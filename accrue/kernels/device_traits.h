#pragma once

#include <cstdint>

namespace accrue {

// What a device wants otherwise than a CPU does. None of it may change a bit between two devices of one kind.
struct DeviceTraits {
    // Grains whose records may still be on the device: more than one micro-batch of them spares it waiting for the host.
    int64_t most_incomplete = 1;
    // Grains whose gradients may wait to be added in one pass, where memory allows, and what that pass then needs for each
    // so many elements of a tensor and grain.
    int64_t most_waiting_grains = 0;
    int64_t waiting_tile = 1;
    int64_t waiting_tile_bytes = 0;
    // Logits have the dtype of their gradients, and lie in the same place.
    bool has_narrow_logits = false;
    // Gradients between products and norms are narrow as activations are, and a norm's backward pass leaves the stream's
    // gradient rounded too, for the product before it. Costs memory for one more matrix.
    bool has_narrow_gradients = false;
    // The gradient of a bias is summed by the operation that writes the matrix it is summed over, where one can (op::GeluGrad,
    // a norm's backward pass), not by the product that reads that matrix. The same bits.
    bool sums_biases_early = false;
    // Rows of logits that it wants at a time; they cost nothing where logits lie in the place of their gradients.
    int64_t loss_rows = 512;
    // What it computes for the first time it prepares, which takes time and memory: it wants to do so before a run.
    bool prepares = false;
    // Tokens of a grain, and rows of a micro-batch, that keep it busy.
    int64_t grain_tokens = 1024;
    int64_t micro_batch_rows = 1024;
};

}  // namespace accrue
