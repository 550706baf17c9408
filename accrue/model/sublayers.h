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
    Segments segments;
    int64_t longest_segment = 0;  // that any batch may have
    uint64_t dropout_seed = 0;
    enum class Mode { training, evaluation } mode = Mode::evaluation;

    // The places of a block where dropout can happen; block -1 is the embedding.
    enum class Site : uint64_t { embedding, attention, attention_output, mlp_output };
    [[nodiscard]] Dropout dropout(float probability, int64_t block, Site site) const;
};

// One block of a batch: what its two sublayers compute with.
struct Block {
    const Pass& pass;
    const BlockContext& context;
    const BlockParameters& parameters;
    const LinearParameters* before;  // the last product of the block before; nothing: the first block
    int64_t number;
};

// Whether all results of a sublayer stay for backward, or only those of products and attention. The others are computed
// again, by the same functions, just before they are needed.
enum class Keep { all, products };

// x + attention(norm(x)): what forward keeps for backward.
struct AttentionSaved {
    NormSaved norm;
    LeasedAny qkv;     // after rope, unless queries and keys are normed
    LeasedAny normed;  // queries and keys after their norms and rope, where the model has such norms; empty = dropped
    Leased<float> query_scale;
    Leased<float> key_scale;
    LeasedAny heads;  // attention's output, before its projection
    Leased<float> log_sum;
};

// x + mlp(norm(x)).
struct MlpSaved {
    NormSaved norm;
    LeasedAny hidden;     // before the activation; gate and up side by side
    LeasedAny activated;  // empty = dropped
};

// Memory for what is kept of some rows.
[[nodiscard]] AttentionSaved lease_attention(const Block& block, int64_t rows, Keep keep);
[[nodiscard]] MlpSaved lease_mlp(const Block& block, int64_t rows, Keep keep);

// output = input + attention(...); `saved` gets what backward needs. Done again it gives the same bits.
void attention_forward(const Block& block, const AttentionSaved& saved, View<const float> input, View<float> output);
// Only the last step of it: output = input + projection of the heads.
void attention_output(const Block& block, const AttentionSaved& saved, View<const float> input, View<float> output);
// d_stream holds the gradient of the output and becomes that of the input. Gives back what it no longer needs.
void attention_backward(const Block& block, AttentionSaved& saved, View<const float> input, const StreamBack& d_stream);

// output = input + mlp(...). An empty output leaves the last product out: nobody needs its result a second time.
void mlp_forward(const Block& block, const MlpSaved& saved, View<const float> input, View<float> output);
void mlp_backward(const Block& block, MlpSaved& saved, View<const float> input, const StreamBack& d_stream);

}  // namespace accrue
