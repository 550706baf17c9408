#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "accrue/base/words.h"

namespace accrue {

// What forward drops of a block and backward computes again.
enum class Recompute {
    nothing,  // all is kept
    cheap,    // norm outputs and the activation's output are dropped: what no product made
    block,    // only the block's input stays
};

[[nodiscard]] constexpr auto words_for(Recompute) {
    return std::to_array<Word<Recompute>>(
        {{"nothing", Recompute::nothing}, {"cheap", Recompute::cheap}, {"block", Recompute::block}});
}

// What may change between any two micro-batches, because it changes memory and time but no bits.
struct Choices {
    // What products read where activations are bf16: a copy of all weights, or the fp32 master, rounded in the same way
    // while it is packed.
    enum class WeightCopy { kept, converted_per_tile };
    static constexpr int64_t kLossRows = 512;

    std::vector<Recompute> blocks;  // one for each layer; empty = nothing is computed again
    int64_t loss_rows = kLossRows;  // rows of logits that exist at a time
    WeightCopy weight_copy = WeightCopy::kept;
    int64_t waiting_grains = 0;  // grains whose gradients may wait, in fp32, to be added in one pass

    bool operator==(const Choices&) const = default;
};

[[nodiscard]] constexpr auto words_for(Choices::WeightCopy) {
    return std::to_array<Word<Choices::WeightCopy>>(
        {{"kept", Choices::WeightCopy::kept}, {"converted", Choices::WeightCopy::converted_per_tile}});
}

// An error if there are choices for some of the layers only, or no rows for the loss.
void check_choices(const Choices& choices, int64_t layers);

}  // namespace accrue
