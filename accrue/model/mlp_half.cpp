#include "accrue/model/block_half.h"

namespace accrue {
namespace {

using Site = BlockContext::Site;

Entrance mlp_entrance_of(const Block& block) {
    return {.norm = block.parameters.mlp_norm, .product = block.parameters.mlp_input};
}

void activate(const Block& block, const MlpSaved& saved, AnyView activated) {
    if (block.context.config.mlp == ModelConfig::Mlp::gelu) {
        block.pass.kernels.gelu(saved.hidden.view, activated);
    } else {
        block.pass.kernels.swiglu(saved.hidden.view, activated);
    }
}

}  // namespace

MlpSaved lease_mlp(const Block& block, int64_t rows, Keep keep) {
    const ModelConfig& config = block.context.config;
    const DType dtype = block.context.dtype;
    Arena& arena = block.pass.kernels.arena();
    MlpSaved saved;
    saved.norm = lease_norm_of_half(block, mlp_entrance_of(block), rows, keep);
    saved.hidden = take_any_matrix(arena, dtype, rows, block.parameters.mlp_input.out);
    if (keep == Keep::all) {
        saved.activated = take_any_matrix(arena, dtype, rows, config.ffn);
    }
    return saved;
}

void mlp_forward(const Block& block, const MlpSaved& saved, View<const float> input, View<float> output) {
    const BlockContext& context = block.context;
    const ModelConfig& config = context.config;
    const LinearParameters& last = block.parameters.mlp_output;
    const Pass& pass = block.pass;
    Kernels& kernels = pass.kernels;
    entrance_forward(block, mlp_entrance_of(block), saved.norm, input, saved.hidden.view);
    const Place activated(kernels.arena(), saved.activated, context.dtype, input.rows, config.ffn);
    activate(block, saved, activated.view());
    if (!output.empty()) {
        kernels.linear_residual(activated.view(), pass.weight_of(last), pass.bias_of(last),
                                context.dropout(config.residual_dropout, block.layer, Site::mlp_output), input, output);
    }
}

void mlp_backward(const Block& block, MlpSaved& saved, View<const float> input, View<float> d_stream) {
    const BlockContext& context = block.context;
    const ModelConfig& config = context.config;
    const LinearParameters& last = block.parameters.mlp_output;
    const Pass& pass = block.pass;
    Kernels& kernels = pass.kernels;
    Arena& arena = kernels.arena();
    LeasedAny d_activated = take_any_matrix(arena, context.dtype, input.rows, config.ffn);
    {
        const Place activated(arena, saved.activated, context.dtype, input.rows, config.ffn);
        if (saved.activated.view.empty()) {
            activate(block, saved, activated.view());
        }
        const StreamGradient d_output(
            kernels, context.dtype, context.dropout(config.residual_dropout, block.layer, Site::mlp_output), d_stream);
        linear_weight_backward(pass, last, d_output.view(), activated.view());
        kernels.linear_input_grad(d_output.view(), pass.weight_of(last), d_activated.view);
    }
    saved.activated = {};
    LeasedAny d_hidden;
    if (config.mlp == ModelConfig::Mlp::gelu) {
        d_hidden = std::move(d_activated);
        kernels.gelu_grad(d_hidden.view, saved.hidden.view, d_hidden.view);
    } else {
        d_hidden = take_any_matrix(arena, context.dtype, input.rows, 2 * config.ffn);
        kernels.swiglu_grad(d_activated.view, saved.hidden.view, d_hidden.view);
        d_activated.block.release();
    }
    saved.hidden = {};
    entrance_backward(block, mlp_entrance_of(block), saved.norm, input, d_hidden.view, d_stream);
}

}  // namespace accrue
