#include "accrue/model/block.h"

#include <cmath>

#include "accrue/base/random.h"

namespace accrue {
namespace {

using Site = BlockContext::Site;

// The gradient that flows into a product from the residual stream, in the dtype products take and through the same
// mask. In fp32 without dropout it is the stream itself.
class StreamGradient {
public:
    StreamGradient(Kernels& kernels, DType dtype, const Dropout& dropout, View<const float> d_stream)
        : view_(d_stream) {
        if (dtype != DType::fp32 || dropout.probability > 0) {
            own_ = take_any_matrix(kernels.arena(), dtype, d_stream.rows, d_stream.columns);
            kernels.cast(d_stream, dropout, own_.view);
            view_ = own_.view;
        }
    }
    [[nodiscard]] AnyConstView view() const { return view_; }

private:
    LeasedAny own_;
    AnyConstView view_;
};

struct HeadViews {
    AnyConstView query;
    AnyConstView key;
    AnyConstView value;
};

struct HeadWidths {
    int64_t query;
    int64_t key;
};

HeadWidths widths_of(const ModelConfig& config) {
    return {.query = config.heads * config.head_size, .key = config.key_heads * config.head_size};
}

HeadViews heads_of(const ModelConfig& config, const AttentionSaved& saved) {
    const auto [query, key] = widths_of(config);
    const AnyConstView qkv = saved.qkv.view;
    const AnyConstView rotated = config.query_key_norm ? AnyConstView(saved.normed.view) : qkv;
    return {.query = rotated.slice_columns(0, query),
            .key = rotated.slice_columns(query, key),
            .value = qkv.slice_columns(query + key, key)};
}

AttentionShape shape_of(const BlockContext& context, int64_t layer) {
    const ModelConfig& config = context.config;
    return {.query_heads = config.heads,
            .key_heads = config.key_heads,
            .head_size = config.head_size,
            .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_size))),
            .dropout = context.dropout(config.attention_dropout, layer, Site::attention)};
}

void norm_heads_forward(const Pass& pass, const ModelConfig& config, const BlockParameters& block,
                        AttentionSaved& saved) {
    const auto [query, key] = widths_of(config);
    Arena& arena = pass.kernels.arena();
    const AnyView qkv = saved.qkv.view;
    saved.normed = take_any_matrix(arena, qkv.dtype, qkv.rows, query + key);
    saved.query_scale = take_matrix<float>(arena, qkv.rows, config.heads);
    saved.key_scale = take_matrix<float>(arena, qkv.rows, config.key_heads);
    pass.kernels.rms_norm(qkv.slice_columns(0, query), pass.master_of(block.query_norm), config.norm_epsilon,
                          saved.normed.view.slice_columns(0, query), saved.query_scale.view);
    pass.kernels.rms_norm(qkv.slice_columns(query, key), pass.master_of(block.key_norm), config.norm_epsilon,
                          saved.normed.view.slice_columns(query, key), saved.key_scale.view);
}

struct HeadNorm {
    int64_t gain;
    View<const float> scale;
};

void norm_heads_backward(const Pass& pass, const HeadNorm& norm, AnyConstView d_normed, AnyConstView input,
                         AnyView d_input) {
    for (const auto& [number, range] : pass.grains) {
        pass.kernels.add_rms_norm_gain_grad(
            d_normed.slice_rows(range.first, range.rows), input.slice_rows(range.first, range.rows),
            norm.scale.slice_rows(range.first, range.rows), pass.sink->sum_of(number, norm.gain));
    }
    pass.kernels.rms_norm_input_grad(d_normed, input, pass.master_of(norm.gain), norm.scale, d_input);
}

}  // namespace

Dropout BlockContext::dropout(float probability, int64_t layer, Site site) const {
    if (mode == Mode::evaluation || probability <= 0) {
        return {};
    }
    return {.probability = probability,
            .site = mix(dropout_seed, static_cast<uint64_t>(layer + 1), static_cast<uint64_t>(site)),
            .rows = row_keys};
}

AttentionSaved attention_forward(const Pass& pass, const BlockContext& context, const BlockParameters& block,
                                 int64_t layer, View<const float> input, View<float> output) {
    const ModelConfig& config = context.config;
    const auto [query, key] = widths_of(config);
    Kernels& kernels = pass.kernels;
    Arena& arena = kernels.arena();
    AttentionSaved saved;
    saved.norm = norm_forward(pass, block.attention_norm, config.norm_epsilon, context.dtype, input);
    saved.qkv = take_any_matrix(arena, context.dtype, input.rows, query + 2 * key);
    kernels.linear(saved.norm.output.view, pass.weight_of(block.qkv), pass.bias_of(block.qkv), saved.qkv.view);
    if (config.query_key_norm) {
        norm_heads_forward(pass, config, block, saved);
    }
    if (config.rope.kind != RopeConfig::Kind::none) {
        const AnyView rotated = config.query_key_norm ? saved.normed.view : saved.qkv.view;
        kernels.rope(rotated.slice_columns(0, query + key), context.positions, context.rope_table);
    }
    saved.heads = take_any_matrix(arena, context.dtype, input.rows, query);
    saved.log_sum = take_matrix<float>(arena, input.rows, config.heads);
    const HeadViews heads = heads_of(config, saved);
    kernels.attention(shape_of(context, layer), context.segments, heads.query, heads.key, heads.value, saved.heads.view,
                      saved.log_sum.view);
    kernels.linear_residual(saved.heads.view, pass.weight_of(block.attention_output),
                            pass.bias_of(block.attention_output),
                            context.dropout(config.residual_dropout, layer, Site::attention_output), input, output);
    return saved;
}

void attention_backward(const Pass& pass, const BlockContext& context, const BlockParameters& block, int64_t layer,
                        const AttentionSaved& saved, View<const float> input, View<float> d_stream) {
    const ModelConfig& config = context.config;
    const auto [query, key] = widths_of(config);
    Kernels& kernels = pass.kernels;
    Arena& arena = kernels.arena();
    LeasedAny d_heads = take_any_matrix(arena, context.dtype, input.rows, query);
    {
        const StreamGradient d_output(
            kernels, context.dtype, context.dropout(config.residual_dropout, layer, Site::attention_output), d_stream);
        linear_weight_backward(pass, block.attention_output, d_output.view(), saved.heads.view);
        kernels.linear_input_grad(d_output.view(), pass.weight_of(block.attention_output), d_heads.view);
    }
    LeasedAny d_qkv = take_any_matrix(arena, context.dtype, input.rows, query + 2 * key);
    LeasedAny d_normed;
    AnyView d_rotated = d_qkv.view.slice_columns(0, query + key);
    if (config.query_key_norm) {
        d_normed = take_any_matrix(arena, context.dtype, input.rows, query + key);
        d_rotated = d_normed.view;
    }
    const HeadViews heads = heads_of(config, saved);
    kernels.attention_grad(shape_of(context, layer), context.segments, heads.query, heads.key, heads.value,
                           saved.heads.view, saved.log_sum.view, d_heads.view, d_rotated.slice_columns(0, query),
                           d_rotated.slice_columns(query, key), d_qkv.view.slice_columns(query + key, key));
    d_heads.block.release();
    if (config.rope.kind != RopeConfig::Kind::none) {
        kernels.rope_grad(d_rotated, context.positions, context.rope_table);
    }
    if (config.query_key_norm) {
        norm_heads_backward(pass, {.gain = block.query_norm, .scale = saved.query_scale.view},
                            d_rotated.slice_columns(0, query), saved.qkv.view.slice_columns(0, query),
                            d_qkv.view.slice_columns(0, query));
        norm_heads_backward(pass, {.gain = block.key_norm, .scale = saved.key_scale.view},
                            d_rotated.slice_columns(query, key), saved.qkv.view.slice_columns(query, key),
                            d_qkv.view.slice_columns(query, key));
    }
    linear_weight_backward(pass, block.qkv, d_qkv.view, saved.norm.output.view);
    const Leased<float> d_norm = take_matrix<float>(arena, input.rows, input.columns);
    kernels.linear_input_grad(d_qkv.view, pass.weight_of(block.qkv), d_norm.view);
    norm_backward(pass, block.attention_norm, saved.norm, input, d_norm.view, d_stream);
}

MlpSaved mlp_forward(const Pass& pass, const BlockContext& context, const BlockParameters& block, int64_t layer,
                     View<const float> input, View<float> output) {
    const ModelConfig& config = context.config;
    Kernels& kernels = pass.kernels;
    MlpSaved saved;
    saved.norm = norm_forward(pass, block.mlp_norm, config.norm_epsilon, context.dtype, input);
    saved.hidden = take_any_matrix(kernels.arena(), context.dtype, input.rows, block.mlp_input.out);
    kernels.linear(saved.norm.output.view, pass.weight_of(block.mlp_input), pass.bias_of(block.mlp_input),
                   saved.hidden.view);
    saved.activated = take_any_matrix(kernels.arena(), context.dtype, input.rows, config.ffn);
    if (config.mlp == ModelConfig::Mlp::gelu) {
        kernels.gelu(saved.hidden.view, saved.activated.view);
    } else {
        kernels.swiglu(saved.hidden.view, saved.activated.view);
    }
    kernels.linear_residual(saved.activated.view, pass.weight_of(block.mlp_output), pass.bias_of(block.mlp_output),
                            context.dropout(config.residual_dropout, layer, Site::mlp_output), input, output);
    return saved;
}

void mlp_backward(const Pass& pass, const BlockContext& context, const BlockParameters& block, int64_t layer,
                  const MlpSaved& saved, View<const float> input, View<float> d_stream) {
    const ModelConfig& config = context.config;
    Kernels& kernels = pass.kernels;
    Arena& arena = kernels.arena();
    LeasedAny d_activated = take_any_matrix(arena, context.dtype, input.rows, config.ffn);
    {
        const StreamGradient d_output(kernels, context.dtype,
                                      context.dropout(config.residual_dropout, layer, Site::mlp_output), d_stream);
        linear_weight_backward(pass, block.mlp_output, d_output.view(), saved.activated.view);
        kernels.linear_input_grad(d_output.view(), pass.weight_of(block.mlp_output), d_activated.view);
    }
    LeasedAny d_hidden;
    AnyView d_input_product = d_activated.view;
    if (config.mlp == ModelConfig::Mlp::gelu) {
        kernels.gelu_grad(d_activated.view, saved.hidden.view, d_activated.view);
    } else {
        d_hidden = take_any_matrix(arena, context.dtype, input.rows, 2 * config.ffn);
        kernels.swiglu_grad(d_activated.view, saved.hidden.view, d_hidden.view);
        d_activated.block.release();
        d_input_product = d_hidden.view;
    }
    linear_weight_backward(pass, block.mlp_input, d_input_product, saved.norm.output.view);
    const Leased<float> d_norm = take_matrix<float>(arena, input.rows, input.columns);
    kernels.linear_input_grad(d_input_product, pass.weight_of(block.mlp_input), d_norm.view);
    norm_backward(pass, block.mlp_norm, saved.norm, input, d_norm.view, d_stream);
}

}  // namespace accrue
