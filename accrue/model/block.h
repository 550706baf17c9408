#pragma once

#include "accrue/model/choices.h"
#include "accrue/model/sublayers.h"

namespace accrue {

// What forward keeps of one block, besides its input.
struct BlockSaved {
    Recompute recompute = Recompute::nothing;
    AttentionSaved attention;
    Leased<float> middle;  // the residual stream between the two sublayers
    MlpSaved mlp;
};

// output = input after both sublayers. Output may be the input where nothing is kept (Recompute::block).
[[nodiscard]] BlockSaved block_forward(const Block& block, Recompute recompute, View<const float> input,
                                       View<float> output);
// d_stream holds the gradient of the output and becomes that of the input. What was dropped is computed again.
void block_backward(const Block& block, BlockSaved saved, View<const float> input, const StreamBack& d_stream);

}  // namespace accrue
