#include "accrue/model/decoder.h"

#include "accrue/model/decoder/rope_table.h"

namespace accrue {
namespace {

template <class T>
Leased<T> upload(Kernels& kernels, std::span<const T> host) {
    Leased<T> result = take_matrix<T>(kernels.arena(), 1, static_cast<int64_t>(host.size()));
    kernels.copy_in(std::as_bytes(host), {reinterpret_cast<std::byte*>(result.view.data), host.size_bytes()});
    return result;
}

void fill_zero(Kernels& kernels, View<float> values) {
    kernels.fill_zero(
        {reinterpret_cast<std::byte*>(values.data), static_cast<size_t>(values.elements()) * sizeof(float)});
}

std::vector<float> download(Kernels& kernels, View<const float> values) {
    std::vector<float> host(static_cast<size_t>(values.elements()));
    kernels.copy_out(values, host);
    return host;
}

// One grain's loss and count, its rows in order.
void finish_grains(const TokenBatch& batch, std::span<const float> losses, GradientSink& sink) {
    for (const auto& [number, range] : batch.grains) {
        double loss = 0;
        int64_t counted = 0;
        for (int64_t row = range.first; row < range.first + range.rows; ++row) {
            loss += static_cast<double>(losses[static_cast<size_t>(row)]);
            counted += batch.targets[static_cast<size_t>(row)] >= 0 ? 1 : 0;
        }
        sink.finish_grain(number, loss, counted);
    }
}

// Sums that are not exact are added in grain order, so a row that one grain of the batch holds back must be held back by
// all of them.
bool holds_alike(const TokenBatch& batch, GradientSink& sink) {
    return !batch.grains.empty() && sink.sum_of(batch.grains.front().number, 0).kind != SumKind::exact;
}

// Which words each grain looks up.
std::vector<Lookup> lookups_of(const TokenBatch& batch, GradientSink& sink) {
    std::vector<Lookup> lookups;
    for (const auto& [number, range] : batch.grains) {
        const auto ids =
            std::span(batch.tokens).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.rows));
        lookups.push_back(holds_alike(batch, sink) ? Lookup(ids, batch.tokens) : Lookup(ids));
    }
    return lookups;
}

int64_t held_slots(const TokenBatch& batch, size_t grain, GradientSink& sink) {
    return holds_alike(batch, sink) ? batch.rows() : batch.grains[grain].range.rows;
}

}  // namespace

// A batch's numbers on the device.
struct Decoder::DeviceBatch {
    DeviceBatch(Kernels& kernels, const TokenBatch& batch)
        : tokens(upload<int32_t>(kernels, batch.tokens)),
          targets(upload<int32_t>(kernels, batch.targets)),
          positions(upload<int32_t>(kernels, batch.positions)),
          row_keys(upload<uint64_t>(kernels, batch.row_keys)) {}

    Leased<int32_t> tokens;
    Leased<int32_t> targets;
    Leased<int32_t> positions;
    Leased<uint64_t> row_keys;
};

// What forward keeps of one layer.
struct Decoder::Kept {
    Leased<float> input;
    LayerSaved saved;
};

Decoder::Decoder(ModelConfig config, const ModelOptions& options, Kernels& kernels)
    : config_(std::move(config)), options_(options), kernels_(kernels), parameters_(decoder_parameters(config_)) {
    if (options_.longest_sample > config_.positions) {
        throw Error(cat("the longest sample has ", options_.longest_sample, " tokens, but the model has only ",
                        config_.positions, " positions. Set data.sequence_length to at most that."));
    }
    if (config_.rope.kind != RopeConfig::Kind::none) {
        const std::vector<float> table = rope_table(config_.rope, config_.head_size, options_.longest_sample);
        rope_table_ = upload<float>(kernels_, table);
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
            .layer = static_cast<int64_t>(layer)};
}

NormSaved Decoder::final_norm(const Pass& pass, View<const float> stream) const {
    NormSaved saved = lease_norm(kernels_.arena(), parameters_.final_norm, options_.dtype, stream.rows, stream.columns);
    norm_forward(pass, parameters_.final_norm, config_.norm_epsilon, stream, saved, saved.output.view);
    return saved;
}

BlockContext Decoder::context_of(const DeviceBatch& batch, const TokenBatch& tokens, BlockContext::Mode mode) const {
    return {.config = config_,
            .dtype = options_.dtype,
            .rope_table = rope_table_.view,
            .positions = batch.positions.view,
            .row_keys = batch.row_keys.view,
            .segments = tokens.segments,
            .dropout_seed = options_.dropout_seed,
            .mode = mode};
}

void Decoder::embed(const Pass& pass, const DeviceBatch& batch, const BlockContext& context, View<float> output) const {
    const View<const float> position_table =
        config_.learned_positions ? pass.master_of(parameters_.position_embedding) : View<const float>();
    kernels_.embed(batch.tokens.view, pass.master_of(parameters_.embedding), batch.positions.view, position_table,
                   context.dropout(config_.embedding_dropout, -1, BlockContext::Site::embedding), output);
}

void Decoder::forward_backward(const TokenBatch& batch, const Weights& weights, GradientSink& sink) {
    Arena& arena = kernels_.arena();
    const DeviceBatch device(kernels_, batch);
    const BlockContext context = context_of(device, batch, BlockContext::Mode::training);
    const Pass pass{
        .kernels = kernels_, .parameters = parameters_.list, .weights = weights, .grains = batch.grains, .sink = &sink};
    const int64_t rows = batch.rows();

    std::vector<Kept> kept;
    kept.reserve(parameters_.blocks.size());
    Leased<float> stream = take_matrix<float>(arena, rows, config_.width);
    embed(pass, device, context, stream.view);
    for (size_t layer = 0; layer < parameters_.blocks.size(); ++layer) {
        Kept& here = kept.emplace_back();
        here.input = std::move(stream);
        stream = take_matrix<float>(arena, rows, config_.width);
        here.saved = layer_forward(block_of(pass, context, layer), recompute_of(layer), here.input.view, stream.view);
    }

    const std::vector<Lookup> lookups = lookups_of(batch, sink);
    std::vector<HeldEmbedding> held;
    for (size_t grain = 0; config_.tied && grain < lookups.size(); ++grain) {
        held.emplace_back(arena, lookups[grain], held_slots(batch, grain, sink), config_.vocabulary, config_.width);
    }
    const Leased<float> d_stream = take_matrix<float>(arena, rows, config_.width);
    fill_zero(kernels_, d_stream.view);
    {
        const NormSaved norm = final_norm(pass, stream.view);
        const Leased<float> losses = take_matrix<float>(arena, 1, rows);
        const Leased<float> d_norm = take_matrix<float>(arena, rows, config_.width);
        head_forward_backward(pass, parameters_.head,
                              {.input = norm.output.view, .targets = device.targets.view, .losses = losses.view},
                              choices_.loss_rows, held, d_norm.view);
        norm_backward(pass, parameters_.final_norm, norm, stream.view, d_norm.view, d_stream.view);
        finish_grains(batch, download(kernels_, losses.view), sink);
    }
    stream.block.release();
    for (size_t layer = parameters_.blocks.size(); layer-- > 0;) {
        Kept& here = kept.back();
        layer_backward(block_of(pass, context, layer), std::move(here.saved), here.input.view, d_stream.view);
        kept.pop_back();
    }
    embedding_backward(pass, batch, context, held, lookups, d_stream.view);
}

void Decoder::embedding_backward(const Pass& pass, const TokenBatch& batch, const BlockContext& context,
                                 std::span<const HeldEmbedding> held, std::span<const Lookup> lookups,
                                 View<float> d_stream) const {
    const Dropout dropout = context.dropout(config_.embedding_dropout, -1, BlockContext::Site::embedding);
    Leased<float> dropped;
    if (dropout.probability > 0) {
        dropped = take_matrix<float>(kernels_.arena(), d_stream.rows, d_stream.columns);
        kernels_.cast(d_stream, dropout, dropped.view);
        d_stream = dropped.view;
    }
    for (size_t grain = 0; grain < batch.grains.size(); ++grain) {
        const auto& [number, range] = batch.grains[grain];
        const View<const float> rows = d_stream.slice_rows(range.first, range.rows);
        kernels_.add_lookup_grad(rows, lookups[grain].index(), held.empty() ? HeldRows{} : held[grain].rows(),
                                 pass.sink->sum_of(number, parameters_.embedding));
        if (config_.learned_positions) {
            const Lookup positions(
                std::span(batch.positions).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.rows)));
            kernels_.add_lookup_grad(rows, positions.index(), {},
                                     pass.sink->sum_of(number, parameters_.position_embedding));
        }
    }
}

NormSaved Decoder::run_forward(const Pass& pass, const DeviceBatch& batch, const BlockContext& context) const {
    Arena& arena = kernels_.arena();
    const int64_t rows = batch.tokens.view.columns;
    const Leased<float> stream = take_matrix<float>(arena, rows, config_.width);
    embed(pass, batch, context, stream.view);
    for (size_t layer = 0; layer < parameters_.blocks.size(); ++layer) {
        (void)layer_forward(block_of(pass, context, layer), Recompute::block, stream.view, stream.view);
    }
    return final_norm(pass, stream.view);
}

std::vector<float> Decoder::losses(const TokenBatch& batch, const Weights& weights) {
    const DeviceBatch device(kernels_, batch);
    const BlockContext context = context_of(device, batch, BlockContext::Mode::evaluation);
    const Pass pass{.kernels = kernels_, .parameters = parameters_.list, .weights = weights, .grains = {}};
    const NormSaved output = run_forward(pass, device, context);
    const Leased<float> losses = take_matrix<float>(kernels_.arena(), 1, batch.rows());
    head_losses(pass, parameters_.head,
                {.input = output.output.view, .targets = device.targets.view, .losses = losses.view},
                choices_.loss_rows);
    return download(kernels_, losses.view);
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
    const DeviceBatch device(kernels_, batch);
    const BlockContext context = context_of(device, batch, BlockContext::Mode::evaluation);
    const Pass pass{.kernels = kernels_, .parameters = parameters_.list, .weights = weights, .grains = {}};
    const NormSaved output = run_forward(pass, device, context);
    const Leased<float> scores = take_matrix<float>(kernels_.arena(), 1, config_.vocabulary);
    const AnyConstView last = AnyConstView(output.output.view).slice_rows(batch.rows() - 1, 1);
    kernels_.linear(last, pass.weight_of(parameters_.head), {}, scores.view);
    return download(kernels_, scores.view);
}

}  // namespace accrue
