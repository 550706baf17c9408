#include "accrue/model/sublayer.h"

#include "accrue/base/random.h"

namespace accrue {

Dropout BlockContext::dropout(float probability, int64_t block, Site site) const {
    if (mode == Mode::evaluation || probability <= 0) {
        return {};
    }
    return {.probability = probability,
            .site = mix(dropout_seed, static_cast<uint64_t>(block + 1), static_cast<uint64_t>(site)),
            .rows = row_keys};
}

NormSaved lease_entrance_norm(const Block& block, const Entrance& entrance, int64_t rows, Keep keep) {
    Arena& arena = block.pass.kernels.arena();
    return keep == Keep::all ? lease_norm(arena, entrance.norm, block.context.dtype, rows, block.context.config.width)
                             : lease_norm(arena, entrance.norm, rows);
}

void entrance_forward(const Block& block, const Entrance& entrance, const NormSaved& saved, View<const float> input,
                      AnyView output, AnyView activated) {
    const Pass& pass = block.pass;
    const ResultBuffer normed(pass.kernels.arena(), saved.output, block.context.dtype, input.rows, input.columns);
    norm_forward(pass, entrance.norm, block.context.config.norm_epsilon, input, saved, normed.view());
    const op::Linear product{.input = normed.view(),
                             .weight = pass.weight_of(entrance.product),
                             .bias = pass.bias_of(entrance.product),
                             .output = output,
                             .narrow_bias = pass.narrow_bias_of(entrance.product)};
    if (activated.empty()) {
        pass.kernels.run(product);
    } else {
        pass.kernels.run(op::LinearActivation{.input = product.input,
                                              .weight = product.weight,
                                              .bias = product.bias,
                                              .activation = block.context.config.mlp == ModelConfig::Mlp::gelu
                                                                ? op::Activation::gelu
                                                                : op::Activation::swiglu,
                                              .hidden = output,
                                              .activated = activated,
                                              .narrow_bias = product.narrow_bias});
    }
}

void entrance_backward(const Block& block, const Entrance& entrance, NormSaved& saved, View<const float> input,
                       const OutputGradient& d_output, const StreamBack& d_stream) {
    const Pass& pass = block.pass;
    Arena& arena = pass.kernels.arena();
    const DType dtype = pass.kernels.traits().has_narrow_gradients ? block.context.dtype : DType::fp32;
    const LeasedAny d_norm = take_any_matrix(arena, dtype, input.rows, input.columns);
    {
        const ResultBuffer normed(arena, saved.output, block.context.dtype, input.rows, input.columns);
        if (saved.output.view.empty()) {
            norm_forward(pass, entrance.norm, block.context.config.norm_epsilon, input, saved, normed.view());
        }
        linear_backward(pass, entrance.product, d_output, normed.view(), d_norm.view);
    }
    saved.output = {};
    norm_backward(pass, entrance.norm, saved, input, d_norm.view, d_stream, entrance.before);
}

}  // namespace accrue
