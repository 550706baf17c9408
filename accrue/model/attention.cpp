#include <cmath>

#include "accrue/model/sublayer.h"

namespace accrue {
namespace {

using Site = BlockContext::Site;

Entrance attention_entrance_of(const Block& block) {
    return {.norm = block.parameters.attention_norm, .product = block.parameters.qkv, .before = block.before};
}

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

AttentionShape shape_of(const BlockContext& context, int64_t block) {
    const ModelConfig& config = context.config;
    return {.query_heads = config.heads,
            .key_heads = config.key_heads,
            .head_size = config.head_size,
            .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_size))),
            .longest = context.longest_segment,
            .dropout = context.dropout(config.attention_dropout, block, Site::attention)};
}

void norm_heads_forward(const Block& block, const AttentionSaved& saved, AnyView normed) {
    const Pass& pass = block.pass;
    const ModelConfig& config = block.context.config;
    const auto [query, key] = widths_of(config);
    const AnyConstView qkv = saved.qkv.view;
    pass.kernels.run(op::RmsNorm{.input = qkv.slice_columns(0, query),
                                 .gain = pass.master_of(block.parameters.query_norm),
                                 .epsilon = config.norm_epsilon,
                                 .output = normed.slice_columns(0, query),
                                 .inverse_rms = saved.query_scale.view});
    pass.kernels.run(op::RmsNorm{.input = qkv.slice_columns(query, key),
                                 .gain = pass.master_of(block.parameters.key_norm),
                                 .epsilon = config.norm_epsilon,
                                 .output = normed.slice_columns(query, key),
                                 .inverse_rms = saved.key_scale.view});
}

void rotate(const Block& block, AnyView heads) {
    if (block.context.config.rope.kind != RopeConfig::Kind::none) {
        block.pass.kernels.run(
            op::Rope{.heads = heads, .positions = block.context.positions, .table = block.context.rope_table});
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

    ResultBuffer place_;
};

struct HeadNorm {
    int64_t gain;
    View<const float> scale;
};

void norm_heads_backward(const Pass& pass, const HeadNorm& norm, AnyConstView d_normed, AnyConstView input,
                         AnyView d_input) {
    const std::vector<SumView> d_gain = pass.sums_of(norm.gain);
    pass.kernels.run(op::RmsNormBackward{.d_output = d_normed,
                                         .input = input,
                                         .gain = pass.master_of(norm.gain),
                                         .inverse_rms = norm.scale,
                                         .d_input = d_input,
                                         .d_stream = {},
                                         .grains = pass.grain_rows,
                                         .d_gain = d_gain});
}

// The gradients of the heads' projection and, through attention, of queries, keys and values as they lie in `d_qkv`.
void heads_backward(const Block& block, AttentionSaved& saved, const StreamBack& d_stream, AnyView d_qkv) {
    const BlockContext& context = block.context;
    const ModelConfig& config = context.config;
    const LinearParameters& projection = block.parameters.attention_output;
    const auto [query, key] = widths_of(config);
    const Pass& pass = block.pass;
    Kernels& kernels = pass.kernels;
    Arena& arena = kernels.arena();
    const LeasedAny d_heads = take_any_matrix(arena, context.dtype, d_stream.exact.rows, query);
    {
        const StreamGradient d_output(kernels, context.dtype,
                                      context.dropout(config.residual_dropout, block.number, Site::attention_output),
                                      d_stream);
        linear_backward(pass, projection, d_output.gradient(), saved.heads.view, d_heads.view);
    }
    const auto attend_backward = [&, query = query, key = key](AnyConstView rotated, AnyView d_rotated) {
        const HeadViews heads = heads_of(config, saved, rotated);
        kernels.run(op::AttentionGrad{.shape = shape_of(context, block.number),
                                      .segments = context.segments,
                                      .query = heads.query,
                                      .key = heads.key,
                                      .value = heads.value,
                                      .output = saved.heads.view,
                                      .log_sum = saved.log_sum.view,
                                      .d_output = d_heads.view,
                                      .d_query = d_rotated.slice_columns(0, query),
                                      .d_key = d_rotated.slice_columns(query, key),
                                      .d_value = d_qkv.slice_columns(query + key, key)});
        if (config.rope.kind != RopeConfig::Kind::none) {
            kernels.run(
                op::RopeGrad{.d_heads = d_rotated, .positions = context.positions, .table = context.rope_table});
        }
    };
    if (!config.query_key_norm) {
        attend_backward(saved.qkv.view, d_qkv.slice_columns(0, query + key));
        return;
    }
    const LeasedAny d_normed = take_any_matrix(arena, context.dtype, d_stream.exact.rows, query + key);
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

}  // namespace

AttentionSaved lease_attention(const Block& block, int64_t rows, Keep keep) {
    const ModelConfig& config = block.context.config;
    const DType dtype = block.context.dtype;
    const auto [query, key] = widths_of(config);
    Arena& arena = block.pass.kernels.arena();
    AttentionSaved saved;
    saved.norm = lease_entrance_norm(block, attention_entrance_of(block), rows, keep);
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
    const auto [query, key] = widths_of(config);
    entrance_forward(block, attention_entrance_of(block), saved.norm, input, saved.qkv.view);
    const auto attend = [&](AnyConstView rotated) {
        const HeadViews heads = heads_of(config, saved, rotated);
        block.pass.kernels.run(op::Attention{.shape = shape_of(context, block.number),
                                             .segments = context.segments,
                                             .query = heads.query,
                                             .key = heads.key,
                                             .value = heads.value,
                                             .output = saved.heads.view,
                                             .log_sum = saved.log_sum.view});
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
    block.pass.kernels.run(op::LinearResidual{
        .input = saved.heads.view,
        .weight = block.pass.weight_of(projection),
        .bias = block.pass.bias_of(projection),
        .dropout = context.dropout(context.config.residual_dropout, block.number, Site::attention_output),
        .residual = input,
        .output = output});
}

void attention_backward(const Block& block, AttentionSaved& saved, View<const float> input,
                        const StreamBack& d_stream) {
    const LeasedAny d_qkv =
        take_any_matrix(block.pass.kernels.arena(), block.context.dtype, input.rows, saved.qkv.view.columns);
    heads_backward(block, saved, d_stream, d_qkv.view);
    saved.qkv = {};
    saved.normed = {};
    saved.heads = {};
    entrance_backward(block, attention_entrance_of(block), saved.norm, input, {.view = d_qkv.view}, d_stream);
}

}  // namespace accrue
