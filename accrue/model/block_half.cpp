#include "accrue/model/block_half.h"

#include "accrue/base/random.h"

namespace accrue {

Dropout BlockContext::dropout(float probability, int64_t layer, Site site) const {
    if (mode == Mode::evaluation || probability <= 0) {
        return {};
    }
    return {.probability = probability,
            .site = mix(dropout_seed, static_cast<uint64_t>(layer + 1), static_cast<uint64_t>(site)),
            .rows = row_keys};
}

NormSaved lease_norm_of_half(const Block& block, const Entrance& entrance, int64_t rows, Keep keep) {
    Arena& arena = block.pass.kernels.arena();
    return keep == Keep::all ? lease_norm(arena, entrance.norm, block.context.dtype, rows, block.context.config.width)
                             : lease_norm(arena, entrance.norm, rows);
}

void entrance_forward(const Block& block, const Entrance& entrance, const NormSaved& saved, View<const float> input,
                      AnyView output) {
    const Pass& pass = block.pass;
    const Place normed(pass.kernels.arena(), saved.output, block.context.dtype, input.rows, input.columns);
    norm_forward(pass, entrance.norm, block.context.config.norm_epsilon, input, saved, normed.view());
    pass.kernels.linear(normed.view(), pass.weight_of(entrance.product), pass.bias_of(entrance.product), output);
}

void entrance_backward(const Block& block, const Entrance& entrance, NormSaved& saved, View<const float> input,
                       AnyConstView d_output, View<float> d_stream) {
    const Pass& pass = block.pass;
    Arena& arena = pass.kernels.arena();
    const Leased<float> d_norm = take_matrix<float>(arena, input.rows, input.columns);
    {
        const Place normed(arena, saved.output, block.context.dtype, input.rows, input.columns);
        if (saved.output.view.empty()) {
            norm_forward(pass, entrance.norm, block.context.config.norm_epsilon, input, saved, normed.view());
        }
        linear_weight_backward(pass, entrance.product, d_output, normed.view());
        pass.kernels.linear_input_grad(d_output, pass.weight_of(entrance.product), d_norm.view);
    }
    saved.output = {};
    norm_backward(pass, entrance.norm, saved, input, d_norm.view, d_stream);
}

}  // namespace accrue
