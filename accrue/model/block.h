#pragma once

#include "accrue/model/linear.h"

namespace accrue {

// What the blocks share: the shape of the model and what a batch brings with it, on the device.
struct BlockContext {
    const ModelConfig& config;
    DType dtype = DType::fp32;  // of activations; the residual stream is always fp32
    View<const float> rope_table;
    View<const int32_t> positions;
    View<const uint64_t> row_keys;
    std::span<const Segment> segments;
    uint64_t dropout_seed = 0;
    enum class Mode { training, evaluation } mode = Mode::evaluation;

    // The places of a layer where dropout can happen; layer -1 is the embedding.
    enum class Site : uint64_t { embedding, attention, attention_output, mlp_output };
    [[nodiscard]] Dropout dropout(float probability, int64_t layer, Site site) const;
};

// x + attention(norm(x)): what forward keeps for backward.
struct AttentionSaved {
    NormSaved norm;
    LeasedAny qkv;     // after rope, unless queries and keys are normed
    LeasedAny normed;  // queries and keys after their norms and rope, where the model has such norms
    Leased<float> query_scale;
    Leased<float> key_scale;
    LeasedAny heads;  // attention's output, before its projection
    Leased<float> log_sum;
};

// x + mlp(norm(x)).
struct MlpSaved {
    NormSaved norm;
    LeasedAny hidden;  // before the activation; gate and up side by side
    LeasedAny activated;
};

// output = input + attention(...). Returns what backward needs.
[[nodiscard]] AttentionSaved attention_forward(const Pass& pass, const BlockContext& context,
                                               const BlockParameters& block, int64_t layer, View<const float> input,
                                               View<float> output);
// d_stream holds the gradient of the output and becomes that of the input.
void attention_backward(const Pass& pass, const BlockContext& context, const BlockParameters& block, int64_t layer,
                        const AttentionSaved& saved, View<const float> input, View<float> d_stream);

[[nodiscard]] MlpSaved mlp_forward(const Pass& pass, const BlockContext& context, const BlockParameters& block,
                                   int64_t layer, View<const float> input, View<float> output);
void mlp_backward(const Pass& pass, const BlockContext& context, const BlockParameters& block, int64_t layer,
                  const MlpSaved& saved, View<const float> input, View<float> d_stream);

}  // namespace accrue
