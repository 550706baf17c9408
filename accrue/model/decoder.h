#pragma once

#include "accrue/model/block.h"
#include "accrue/model/decoder/config.h"
#include "accrue/model/device_batch.h"
#include "accrue/model/head.h"
#include "accrue/model/model.h"

namespace accrue {

// A decoder-only transformer: GPT-2, Llama, Mistral, Qwen2, Qwen3. All its memory comes from the kernels' arena.
class Decoder final : public Model, public Generator {
public:
    Decoder(ModelConfig config, const ModelOptions& options, Kernels& kernels);

    void choose(const Choices& choices) override;
    [[nodiscard]] const Choices& choices() const override { return choices_; }
    [[nodiscard]] const ParameterList& parameters() const override { return parameters_.list; }
    void forward_backward(const TokenBatch& batch, const Weights& weights, GradientSink& sink) override;
    [[nodiscard]] std::vector<float> losses(const TokenBatch& batch, const Weights& weights) override;
    [[nodiscard]] Generator* generator() override { return this; }
    [[nodiscard]] std::vector<float> next_scores(std::span<const int32_t> tokens, const Weights& weights) override;

private:
    struct Kept;

    [[nodiscard]] BlockContext context_of(const DeviceBatch& batch, BlockContext::Mode mode) const;
    [[nodiscard]] LookupNeeds lookup_needs(const TokenBatch& batch, GradientSink& sink) const;
    [[nodiscard]] Recompute recompute_of(size_t layer) const;
    // The product whose output is the last one in the stream when `layer` begins; the last layer's end is the beginning of the
    // one after it. Nothing: the embedding.
    [[nodiscard]] const LinearParameters* output_before(size_t layer) const {
        return layer == 0 ? nullptr : &parameters_.blocks[layer - 1].mlp_output;
    }
    [[nodiscard]] Block block_of(const Pass& pass, const BlockContext& context, size_t layer) const;
    [[nodiscard]] NormSaved final_norm(const Pass& pass, View<const float> stream) const;
    void embed(const Pass& pass, const DeviceBatch& batch, const BlockContext& context, View<float> output) const;
    // The normed output of the last block, nothing kept.
    [[nodiscard]] NormSaved run_forward(const Pass& pass, const DeviceBatch& batch, const BlockContext& context) const;
    void embedding_backward(const Pass& pass, const DeviceBatch& batch, const BlockContext& context,
                            View<float> d_stream) const;

    ModelConfig config_;
    ModelOptions options_;
    Choices choices_;
    Kernels& kernels_;
    DecoderParameters parameters_;
    Leased<float> rope_table_;
};

}  // namespace accrue
