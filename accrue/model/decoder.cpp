#include "accrue/model/decoder.h"

#include "accrue/model/decoder/rope_table.h"
#include "accrue/model/device_batch.h"

namespace accrue {
namespace {

constexpr AttentionMask kMask = AttentionMask::causal;

// Sums that are not exact are added in grain order, so a row that one grain of the batch holds back must be held back by
// all of them.
bool holds_alike(const TokenBatch& batch, GradientSink& sink, int64_t tensor) {
    return !batch.grains.empty() && sink.sum_of(batch.grains.front().number, tensor).kind != SumKind::exact;
}

}  // namespace

// What forward keeps of one block.
struct Decoder::Kept {
    Leased<float> input;
    BlockSaved saved;
};

Decoder::Decoder(ModelConfig config, const ModelOptions& options, Kernels& kernels)
    : config_(std::move(config)), options_(options), kernels_(kernels), parameters_(decoder_parameters(config_)) {
    if (options_.longest_sample > config_.positions) {
        throw Error(cat("the longest sample has ", options_.longest_sample, " tokens, but the model has only ",
                        config_.positions, " positions. Set data.sequence_length to at most that."));
    }
    if (options_.is_trained) {
        parameters_.list.place_gradients(options_.is_trained);
    }
    if (config_.rope.kind != RopeConfig::Kind::none) {
        const std::vector<float> table = rope_table(config_.rope, config_.head_size, options_.longest_sample);
        rope_table_ = uploaded<float>(kernels_, table);
        rope_table_.view = View<float>(rope_table_.view.data, options_.longest_sample, config_.head_size);
    }
}

void Decoder::choose(const Choices& choices) {
    check_choices(choices, config_.layers);
    choices_ = choices;
}

Recompute Decoder::recompute_of(size_t layer) const {
    return choices_.blocks.empty() ? Recompute::nothing : choices_.blocks[layer];
}

Block Decoder::block_of(const Pass& pass, const BlockContext& context, size_t layer) const {
    return {.pass = pass,
            .context = context,
            .parameters = parameters_.blocks[layer],
            .before = output_before(layer),
            .number = static_cast<int64_t>(layer)};
}

NormSaved Decoder::final_norm(const Pass& pass, View<const float> stream) const {
    NormSaved saved = lease_norm(kernels_.arena(), parameters_.final_norm, options_.dtype, stream.rows, stream.columns);
    norm_forward(pass, parameters_.final_norm, config_.norm_epsilon, stream, saved, saved.output.view);
    return saved;
}

BlockContext Decoder::context_of(const DeviceBatch& batch, BlockContext::Mode mode) const {
    return {.config = config_,
            .dtype = options_.dtype,
            .rope_table = rope_table_.view,
            .positions = batch.positions(),
            .row_keys = batch.row_keys(),
            .segments = batch.segments(),
            .longest_segment = options_.longest_sample,
            .dropout_seed = options_.dropout_seed,
            .mode = mode};
}

void Decoder::embed(const Pass& pass, const DeviceBatch& batch, const BlockContext& context, View<float> output) const {
    const View<const float> position_table =
        config_.learned_positions ? pass.master_of(parameters_.position_embedding) : View<const float>();
    kernels_.run(op::Embed{.tokens = batch.tokens(),
                           .table = pass.master_of(parameters_.embedding),
                           .positions = batch.positions(),
                           .position_table = position_table,
                           .dropout = context.dropout(config_.embedding_dropout, -1, BlockContext::Site::embedding),
                           .output = output});
}

LookupNeeds Decoder::lookup_needs(const TokenBatch& batch, GradientSink& sink) const {
    const auto& words = parameters_.list[parameters_.embedding].gradient;
    return {
        .words = words.has_value(),
        .positions = config_.learned_positions && parameters_.list[parameters_.position_embedding].gradient.has_value(),
        .held_columns = config_.tied && words ? config_.width : 0,
        .held_rows_of = config_.vocabulary,
        .holds_alike = words && holds_alike(batch, sink, words->tensor)};
}

void Decoder::forward_backward(const TokenBatch& batch, const Weights& weights, GradientSink& sink) {
    Arena& arena = kernels_.arena();
    sink.begin(counted_grains(batch));
    const DeviceBatch device(kernels_, batch, kMask, lookup_needs(batch, sink));
    const BlockContext context = context_of(device, BlockContext::Mode::training);
    const Pass pass{.kernels = kernels_,
                    .parameters = parameters_.list,
                    .weights = weights,
                    .grains = device.grain_numbers(),
                    .grain_rows = device.grain_rows(),
                    .sink = &sink};
    const int64_t rows = batch.rows();

    std::vector<Kept> kept;
    kept.reserve(parameters_.blocks.size());
    Leased<float> stream = take_matrix<float>(arena, rows, config_.width);
    embed(pass, device, context, stream.view);
    for (size_t layer = 0; layer < parameters_.blocks.size(); ++layer) {
        Kept& here = kept.emplace_back();
        here.input = std::move(stream);
        stream = take_matrix<float>(arena, rows, config_.width);
        here.saved = block_forward(block_of(pass, context, layer), recompute_of(layer), here.input.view, stream.view);
    }

    const Leased<float> d_stream_memory = take_matrix<float>(arena, rows, config_.width);
    fill_zero(kernels_, d_stream_memory.block);
    const bool is_rounded_too = options_.dtype != DType::fp32 && kernels_.traits().has_narrow_gradients;
    const LeasedAny rounded =
        is_rounded_too ? take_any_matrix(arena, options_.dtype, rows, config_.width) : LeasedAny();
    const StreamBack d_stream{
        .exact = d_stream_memory.view,
        .rounded = rounded.view,
        .is_summed = is_rounded_too && kernels_.traits().sums_biases_early && config_.residual_dropout == 0};
    {
        const NormSaved norm = final_norm(pass, stream.view);
        const Leased<float> losses = take_matrix<float>(arena, 1, rows);
        const Leased<float> d_norm = take_matrix<float>(arena, rows, config_.width);
        head_forward_backward(pass, parameters_.head,
                              {.input = norm.output.view, .targets = device.targets(), .losses = losses.view},
                              choices_.loss_rows, device.held(), d_norm.view);
        norm_backward(pass, parameters_.final_norm, norm, stream.view, d_norm.view, d_stream,
                      output_before(parameters_.blocks.size()));
        kernels_.run(op::GrainLosses{.losses = losses.view, .grains = device.grain_rows(), .sums = sink.loss_sums()});
    }
    stream.block.release();
    for (size_t layer = parameters_.blocks.size(); layer-- > 0;) {
        Kept& here = kept.back();
        block_backward(block_of(pass, context, layer), std::move(here.saved), here.input.view, d_stream);
        kept.pop_back();
    }
    embedding_backward(pass, device, context, d_stream.exact);
    sink.end();
}

void Decoder::embedding_backward(const Pass& pass, const DeviceBatch& batch, const BlockContext& context,
                                 View<float> d_stream) const {
    const Dropout dropout = context.dropout(config_.embedding_dropout, -1, BlockContext::Site::embedding);
    Leased<float> dropped;
    if (dropout.probability > 0) {
        dropped = take_matrix<float>(kernels_.arena(), d_stream.rows, d_stream.columns);
        kernels_.run(op::Cast{.input = d_stream, .dropout = dropout, .output = dropped.view});
        d_stream = dropped.view;
    }
    std::vector<op::LookupGrain> grains;
    const std::vector<SumView> words = pass.sums_of(parameters_.embedding);
    for (size_t grain = 0; grain < words.size(); ++grain) {
        grains.push_back({.rows = pass.grain_rows[grain],
                          .index = batch.words_of(grain),
                          .held = batch.held().empty() ? HeldRows{} : batch.held()[grain],
                          .d_table = words[grain]});
    }
    if (config_.learned_positions) {
        const std::vector<SumView> positions = pass.sums_of(parameters_.position_embedding);
        for (size_t grain = 0; grain < positions.size(); ++grain) {
            grains.push_back({.rows = pass.grain_rows[grain],
                              .index = batch.positions_of(grain),
                              .held = {},
                              .d_table = positions[grain]});
        }
    }
    kernels_.run(op::AddLookupGrad{.d_output = d_stream, .grains = grains});
}

NormSaved Decoder::run_forward(const Pass& pass, const DeviceBatch& batch, const BlockContext& context) const {
    Arena& arena = kernels_.arena();
    const int64_t rows = batch.rows();
    const Leased<float> stream = take_matrix<float>(arena, rows, config_.width);
    embed(pass, batch, context, stream.view);
    for (size_t layer = 0; layer < parameters_.blocks.size(); ++layer) {
        (void)block_forward(block_of(pass, context, layer), Recompute::block, stream.view, stream.view);
    }
    return final_norm(pass, stream.view);
}

std::vector<float> Decoder::losses(const TokenBatch& batch, const Weights& weights) {
    const DeviceBatch device(kernels_, batch, kMask);
    const BlockContext context = context_of(device, BlockContext::Mode::evaluation);
    const Pass pass{.kernels = kernels_, .parameters = parameters_.list, .weights = weights};
    const NormSaved output = run_forward(pass, device, context);
    const Leased<float> losses = take_matrix<float>(kernels_.arena(), 1, batch.rows());
    head_losses(pass, parameters_.head,
                {.input = output.output.view, .targets = device.targets(), .losses = losses.view}, choices_.loss_rows);
    return downloaded(kernels_, losses.view);
}

std::vector<float> Decoder::next_scores(std::span<const int32_t> tokens, const Weights& weights) {
    TokenBatch batch;
    batch.tokens.assign(tokens.begin(), tokens.end());
    batch.targets.assign(tokens.size(), -1);
    batch.row_keys.assign(tokens.size(), 0);
    for (size_t i = 0; i < tokens.size(); ++i) {
        batch.positions.push_back(static_cast<int32_t>(i));
    }
    batch.segments.push_back({.first = 0, .length = batch.rows()});
    const DeviceBatch device(kernels_, batch, kMask);
    const BlockContext context = context_of(device, BlockContext::Mode::evaluation);
    const Pass pass{.kernels = kernels_, .parameters = parameters_.list, .weights = weights};
    const NormSaved output = run_forward(pass, device, context);
    const Leased<float> scores = take_matrix<float>(kernels_.arena(), 1, config_.vocabulary);
    const AnyConstView last = AnyConstView(output.output.view).slice_rows(batch.rows() - 1, 1);
    kernels_.run(op::Linear{.input = last,
                            .weight = pass.weight_of(parameters_.head),
                            .bias = {},
                            .output = scores.view,
                            .of = op::ProductOf::head});
    return downloaded(kernels_, scores.view);
}

}  // namespace accrue
