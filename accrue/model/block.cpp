#include "accrue/model/block.h"

namespace accrue {
namespace {

Leased<float> take_stream(const Block& block, View<const float> like) {
    return take_matrix<float>(block.pass.kernels.arena(), like.rows, like.columns);
}

void forward_keeping_nothing(const Block& block, View<const float> input, View<float> output) {
    const Leased<float> middle = take_stream(block, input);
    {
        const AttentionSaved attention = lease_attention(block, input.rows, Keep::products);
        attention_forward(block, attention, input, middle.view);
    }
    const MlpSaved mlp = lease_mlp(block, input.rows, Keep::products);
    mlp_forward(block, mlp, middle.view, output);
}

// Everything that backward reads, from the input alone: all of forward but the last product.
BlockSaved computed_again(const Block& block, View<const float> input) {
    BlockSaved saved{.recompute = Recompute::nothing,
                     .attention = lease_attention(block, input.rows, Keep::all),
                     .middle = take_stream(block, input),
                     .mlp = {}};
    attention_forward(block, saved.attention, input, saved.middle.view);
    saved.mlp = lease_mlp(block, input.rows, Keep::all);
    mlp_forward(block, saved.mlp, saved.middle.view, {});
    return saved;
}

}  // namespace

// What stays is taken before what goes, so that the blocks' memory lies without gaps.
BlockSaved block_forward(const Block& block, Recompute recompute, View<const float> input, View<float> output) {
    if (recompute == Recompute::block) {
        forward_keeping_nothing(block, input, output);
        return {.recompute = recompute, .attention = {}, .middle = {}, .mlp = {}};
    }
    const Keep keep = recompute == Recompute::cheap ? Keep::products : Keep::all;
    BlockSaved saved{.recompute = recompute,
                     .attention = lease_attention(block, input.rows, keep),
                     .middle = {},
                     .mlp = lease_mlp(block, input.rows, keep)};
    saved.middle = take_stream(block, input);
    attention_forward(block, saved.attention, input, saved.middle.view);
    mlp_forward(block, saved.mlp, saved.middle.view, output);
    if (recompute == Recompute::cheap) {
        saved.middle = {};
    }
    return saved;
}

void block_backward(const Block& block, BlockSaved saved, View<const float> input, const StreamBack& d_stream) {
    if (saved.recompute == Recompute::block) {
        saved = computed_again(block, input);
    } else if (saved.recompute == Recompute::cheap) {
        // The smallest product of a block gives back as much memory as the stream itself takes.
        saved.middle = take_stream(block, input);
        attention_output(block, saved.attention, input, saved.middle.view);
    }
    mlp_backward(block, saved.mlp, saved.middle.view, d_stream);
    saved.mlp = {};
    saved.middle = {};
    attention_backward(block, saved.attention, input, d_stream);
}

}  // namespace accrue
