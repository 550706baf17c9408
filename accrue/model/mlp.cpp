#include "accrue/model/sublayer.h"

namespace accrue {
namespace {

using Site = BlockContext::Site;

Entrance mlp_entrance_of(const Block& block) {
    return {.norm = block.parameters.mlp_norm,
            .product = block.parameters.mlp_input,
            .before = &block.parameters.attention_output};
}

void activate(const Block& block, const MlpSaved& saved, AnyView activated) {
    if (block.context.config.mlp == ModelConfig::Mlp::gelu) {
        block.pass.kernels.run(op::Gelu{.input = saved.hidden.view, .output = activated});
    } else {
        block.pass.kernels.run(op::Swiglu{.gate_up = saved.hidden.view, .output = activated});
    }
}

}  // namespace

MlpSaved lease_mlp(const Block& block, int64_t rows, Keep keep) {
    const ModelConfig& config = block.context.config;
    const DType dtype = block.context.dtype;
    Arena& arena = block.pass.kernels.arena();
    MlpSaved saved;
    saved.norm = lease_entrance_norm(block, mlp_entrance_of(block), rows, keep);
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
    entrance_forward(block, mlp_entrance_of(block), saved.norm, input, saved.hidden.view, saved.activated.view);
    const ResultBuffer activated(kernels.arena(), saved.activated, context.dtype, input.rows, config.ffn);
    if (saved.activated.view.empty()) {
        activate(block, saved, activated.view());
    }
    if (!output.empty()) {
        kernels.run(
            op::LinearResidual{.input = activated.view(),
                               .weight = pass.weight_of(last),
                               .bias = pass.bias_of(last),
                               .dropout = context.dropout(config.residual_dropout, block.number, Site::mlp_output),
                               .residual = input,
                               .output = output});
    }
}

void mlp_backward(const Block& block, MlpSaved& saved, View<const float> input, const StreamBack& d_stream) {
    const BlockContext& context = block.context;
    const ModelConfig& config = context.config;
    const LinearParameters& last = block.parameters.mlp_output;
    const Pass& pass = block.pass;
    Kernels& kernels = pass.kernels;
    Arena& arena = kernels.arena();
    LeasedAny d_activated = take_any_matrix(arena, context.dtype, input.rows, config.ffn);
    {
        const ResultBuffer activated(arena, saved.activated, context.dtype, input.rows, config.ffn);
        if (saved.activated.view.empty()) {
            activate(block, saved, activated.view());
        }
        const StreamGradient d_output(
            kernels, context.dtype, context.dropout(config.residual_dropout, block.number, Site::mlp_output), d_stream);
        linear_backward(pass, last, d_output.gradient(), activated.view(), d_activated.view);
    }
    saved.activated = {};
    LeasedAny d_hidden;
    bool is_summed = false;
    if (config.mlp == ModelConfig::Mlp::gelu) {
        d_hidden = std::move(d_activated);
        is_summed = kernels.traits().sums_biases_early;
        const std::vector<SumView> d_bias =
            is_summed ? pass.bias_sums_of(block.parameters.mlp_input) : std::vector<SumView>();
        kernels.run(op::GeluGrad{.d_output = d_hidden.view,
                                 .input = saved.hidden.view,
                                 .d_input = d_hidden.view,
                                 .grains = pass.grain_rows,
                                 .d_bias = d_bias});
    } else {
        d_hidden = take_any_matrix(arena, context.dtype, input.rows, 2 * config.ffn);
        kernels.run(
            op::SwigluGrad{.d_output = d_activated.view, .gate_up = saved.hidden.view, .d_gate_up = d_hidden.view});
        d_activated.block.release();
    }
    saved.hidden = {};
    entrance_backward(block, mlp_entrance_of(block), saved.norm, input, {.view = d_hidden.view, .is_summed = is_summed},
                      d_stream);
}

}  // namespace accrue
