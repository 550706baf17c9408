#pragma once

#include "accrue/model/block.h"
#include "accrue/model/choices.h"

namespace accrue {

// What forward keeps of one block, besides its input.
struct LayerSaved {
    Recompute recompute = Recompute::nothing;
    AttentionSaved attention;
    Leased<float> middle;  // the residual stream between the two halves
    MlpSaved mlp;
};

// output = input after both halves. Output may be the input where nothing is kept (Recompute::block).
[[nodiscard]] LayerSaved layer_forward(const Block& block, Recompute recompute, View<const float> input,
                                       View<float> output);
// d_stream holds the gradient of the output and becomes that of the input. What was dropped is computed again.
void layer_backward(const Block& block, LayerSaved saved, View<const float> input, View<float> d_stream);

}  // namespace accrue
