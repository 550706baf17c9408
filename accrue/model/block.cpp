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

// `rotated`: where queries and keys lie ready for attention.
HeadViews heads_of(const ModelConfig& config, const AttentionSaved& saved, AnyConstView rotated) {
    const auto [query, key] = widths_of(config);
    return {.query = rotated.slice_columns(0, query),
            .key = rotated.slice_columns(query, key),
            .value = AnyConstView(saved.qkv.view).slice_columns(query + key, key)};
}

AttentionShape shape_of(const BlockContext& context, int64_t layer) {
    const ModelConfig& config = context.config;
    return {.query_heads = config.heads,
            .key_heads = config.key_heads,
            .head_size = config.head_size,
            .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_size))),
            .dropout = context.dropout(config.attention_dropout, layer, Site::attention)};
}

void norm_heads_forward(const Block& block, const AttentionSaved& saved, AnyView normed) {
    const Pass& pass = block.pass;
    const ModelConfig& config = block.context.config;
    const auto [query, key] = widths_of(config);
    const AnyConstView qkv = saved.qkv.view;
    pass.kernels.rms_norm(qkv.slice_columns(0, query), pass.master_of(block.parameters.query_norm), config.norm_epsilon,
                          normed.slice_columns(0, query), saved.query_scale.view);
    pass.kernels.rms_norm(qkv.slice_columns(query, key), pass.master_of(block.parameters.key_norm), config.norm_epsilon,
                          normed.slice_columns(query, key), saved.key_scale.view);
}

void rotate(const Block& block, AnyView heads) {
    if (block.context.config.rope.kind != RopeConfig::Kind::none) {
        block.pass.kernels.rope(heads, block.context.positions, block.context.rope_table);
    }
}

// Queries and keys as attention reads them, where a model norms them: kept, or computed again.
class NormedHeads {
public:
    NormedHeads(const Block& block, const AttentionSaved& saved)
        : NormedHeads(block, saved, widths_of(block.context.config)) {}
    [[nodiscard]] AnyView view() const { return place_.view(); }
    void compute(const Block& block, const AttentionSaved& saved) const {
        norm_heads_forward(block, saved, view());
        rotate(block, view());
    }

private:
    NormedHeads(const Block& block, const AttentionSaved& saved, const HeadWidths& widths)
        : place_(block.pass.kernels.arena(), saved.normed, saved.qkv.view.dtype, saved.qkv.view.rows,
                 widths.query + widths.key) {}

    Place place_;
};

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

AttentionSaved lease_attention(const Block& block, int64_t rows, Keep keep) {
    const ModelConfig& config = block.context.config;
    const DType dtype = block.context.dtype;
    const NormParameters& norm = block.parameters.attention_norm;
    const auto [query, key] = widths_of(config);
    Arena& arena = block.pass.kernels.arena();
    AttentionSaved saved;
    saved.norm = keep == Keep::all ? lease_norm(arena, norm, dtype, rows, config.width) : lease_norm(arena, norm, rows);
    saved.qkv = take_any_matrix(arena, dtype, rows, query + 2 * key);
    if (config.query_key_norm) {
        saved.query_scale = take_matrix<float>(arena, rows, config.heads);
        saved.key_scale = take_matrix<float>(arena, rows, config.key_heads);
    }
    if (config.query_key_norm && keep == Keep::all) {
        saved.normed = take_any_matrix(arena, dtype, rows, query + key);
    }
    saved.heads = take_any_matrix(arena, dtype, rows, query);
    saved.log_sum = take_matrix<float>(arena, rows, config.heads);
    return saved;
}

void attention_forward(const Block& block, const AttentionSaved& saved, View<const float> input, View<float> output) {
    const BlockContext& context = block.context;
    const ModelConfig& config = context.config;
    const LinearParameters& qkv = block.parameters.qkv;
    const auto [query, key] = widths_of(config);
    const Pass& pass = block.pass;
    Kernels& kernels = pass.kernels;
    {
        const Place normed(kernels.arena(), saved.norm.output, context.dtype, input.rows, input.columns);
        norm_forward(pass, block.parameters.attention_norm, config.norm_epsilon, input, saved.norm, normed.view());
        kernels.linear(normed.view(), pass.weight_of(qkv), pass.bias_of(qkv), saved.qkv.view);
    }
    const auto attend = [&](AnyConstView rotated) {
        const HeadViews heads = heads_of(config, saved, rotated);
        kernels.attention(shape_of(context, block.layer), context.segments, heads.query, heads.key, heads.value,
                          saved.heads.view, saved.log_sum.view);
    };
    if (config.query_key_norm) {
        const NormedHeads normed(block, saved);
        normed.compute(block, saved);
        attend(normed.view());
    } else {
        rotate(block, saved.qkv.view.slice_columns(0, query + key));
        attend(saved.qkv.view);
    }
    attention_output(block, saved, input, output);
}

void attention_output(const Block& block, const AttentionSaved& saved, View<const float> input, View<float> output) {
    const BlockContext& context = block.context;
    const LinearParameters& projection = block.parameters.attention_output;
    block.pass.kernels.linear_residual(
        saved.heads.view, block.pass.weight_of(projection), block.pass.bias_of(projection),
        context.dropout(context.config.residual_dropout, block.layer, Site::attention_output), input, output);
}

namespace {

// The gradients of the heads' projection and, through attention, of queries, keys and values as they lie in `d_qkv`.
void heads_backward(const Block& block, AttentionSaved& saved, View<const float> d_stream, AnyView d_qkv) {
    const BlockContext& context = block.context;
    const ModelConfig& config = context.config;
    const LinearParameters& projection = block.parameters.attention_output;
    const auto [query, key] = widths_of(config);
    const Pass& pass = block.pass;
    Kernels& kernels = pass.kernels;
    Arena& arena = kernels.arena();
    const LeasedAny d_heads = take_any_matrix(arena, context.dtype, d_stream.rows, query);
    {
        const StreamGradient d_output(kernels, context.dtype,
                                      context.dropout(config.residual_dropout, block.layer, Site::attention_output),
                                      d_stream);
        linear_weight_backward(pass, projection, d_output.view(), saved.heads.view);
        kernels.linear_input_grad(d_output.view(), pass.weight_of(projection), d_heads.view);
    }
    const auto attend_backward = [&](AnyConstView rotated, AnyView d_rotated) {
        const HeadViews heads = heads_of(config, saved, rotated);
        kernels.attention_grad(shape_of(context, block.layer), context.segments, heads.query, heads.key, heads.value,
                               saved.heads.view, saved.log_sum.view, d_heads.view, d_rotated.slice_columns(0, query),
                               d_rotated.slice_columns(query, key), d_qkv.slice_columns(query + key, key));
        if (config.rope.kind != RopeConfig::Kind::none) {
            kernels.rope_grad(d_rotated, context.positions, context.rope_table);
        }
    };
    if (!config.query_key_norm) {
        attend_backward(saved.qkv.view, d_qkv.slice_columns(0, query + key));
        return;
    }
    const LeasedAny d_normed = take_any_matrix(arena, context.dtype, d_stream.rows, query + key);
    {
        const NormedHeads normed(block, saved);
        if (saved.normed.view.empty()) {
            normed.compute(block, saved);
        }
        attend_backward(normed.view(), d_normed.view);
    }
    norm_heads_backward(pass, {.gain = block.parameters.query_norm, .scale = saved.query_scale.view},
                        d_normed.view.slice_columns(0, query), saved.qkv.view.slice_columns(0, query),
                        d_qkv.slice_columns(0, query));
    norm_heads_backward(pass, {.gain = block.parameters.key_norm, .scale = saved.key_scale.view},
                        d_normed.view.slice_columns(query, key), saved.qkv.view.slice_columns(query, key),
                        d_qkv.slice_columns(query, key));
}

// The gradients of a half's first product and, through its norm, of the stream it reads.
void entrance_backward(const Block& block, const NormParameters& norm, const LinearParameters& product,
                       NormSaved& saved, AnyConstView d_output, View<const float> input, View<float> d_stream) {
    const Pass& pass = block.pass;
    Arena& arena = pass.kernels.arena();
    {
        const Place normed(arena, saved.output, block.context.dtype, input.rows, input.columns);
        if (saved.output.view.empty()) {
            norm_forward(pass, norm, block.context.config.norm_epsilon, input, saved, normed.view());
        }
        linear_weight_backward(pass, product, d_output, normed.view());
    }
    saved.output = {};
    const Leased<float> d_norm = take_matrix<float>(arena, input.rows, input.columns);
    pass.kernels.linear_input_grad(d_output, pass.weight_of(product), d_norm.view);
    norm_backward(pass, norm, saved, input, d_norm.view, d_stream);
}

}  // namespace

void attention_backward(const Block& block, AttentionSaved& saved, View<const float> input, View<float> d_stream) {
    const LeasedAny d_qkv =
        take_any_matrix(block.pass.kernels.arena(), block.context.dtype, input.rows, saved.qkv.view.columns);
    heads_backward(block, saved, d_stream, d_qkv.view);
    saved.qkv = {};
    saved.normed = {};
    saved.heads = {};
    entrance_backward(block, block.parameters.attention_norm, block.parameters.qkv, saved.norm, d_qkv.view, input,
                      d_stream);
}

MlpSaved lease_mlp(const Block& block, int64_t rows, Keep keep) {
    const ModelConfig& config = block.context.config;
    const DType dtype = block.context.dtype;
    const NormParameters& norm = block.parameters.mlp_norm;
    Arena& arena = block.pass.kernels.arena();
    MlpSaved saved;
    saved.norm = keep == Keep::all ? lease_norm(arena, norm, dtype, rows, config.width) : lease_norm(arena, norm, rows);
    saved.hidden = take_any_matrix(arena, dtype, rows, block.parameters.mlp_input.out);
    if (keep == Keep::all) {
        saved.activated = take_any_matrix(arena, dtype, rows, config.ffn);
    }
    return saved;
}

namespace {

void activate(const Block& block, const MlpSaved& saved, AnyView activated) {
    if (block.context.config.mlp == ModelConfig::Mlp::gelu) {
        block.pass.kernels.gelu(saved.hidden.view, activated);
    } else {
        block.pass.kernels.swiglu(saved.hidden.view, activated);
    }
}

}  // namespace

void mlp_forward(const Block& block, const MlpSaved& saved, View<const float> input, View<float> output) {
    const BlockContext& context = block.context;
    const ModelConfig& config = context.config;
    const LinearParameters& first = block.parameters.mlp_input;
    const LinearParameters& last = block.parameters.mlp_output;
    const Pass& pass = block.pass;
    Kernels& kernels = pass.kernels;
    {
        const Place normed(kernels.arena(), saved.norm.output, context.dtype, input.rows, input.columns);
        norm_forward(pass, block.parameters.mlp_norm, config.norm_epsilon, input, saved.norm, normed.view());
        kernels.linear(normed.view(), pass.weight_of(first), pass.bias_of(first), saved.hidden.view);
    }
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
    entrance_backward(block, block.parameters.mlp_norm, block.parameters.mlp_input, saved.norm, d_hidden.view, input,
                      d_stream);
}

}  // namespace accrue
