#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "accrue/kernels/gradient_sink.h"
#include "accrue/kernels/kernels.h"
#include "accrue/model/choices.h"
#include "accrue/model/parameters.h"

namespace accrue {

// The grains of a micro-batch as the layers see them: one row per token, samples of any length one behind another.
struct TokenBatch {
    struct Grain {
        int64_t number = 0;  // in its window
        RowRange range;
    };
    std::vector<int32_t> tokens;
    std::vector<int32_t> targets;    // -1 = not counted
    std::vector<int32_t> positions;  // of the token in its sample
    std::vector<uint64_t> row_keys;  // epoch, sample and position, mixed: who the row is, for dropout
    std::vector<Segment> segments;   // rows that attend to each other
    std::vector<Grain> grains;

    [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

// A batch's grains with the tokens that each counts, as a sink takes them.
[[nodiscard]] std::vector<GradientSink::Grain> counted_grains(const TokenBatch& batch);

// What a model is made for, besides what it computes.
struct ModelOptions {
    DType dtype = DType::fp32;   // of activations and of the weights that products read
    int64_t longest_sample = 0;  // in tokens: how many positions to prepare for
    uint64_t dropout_seed = 0;
    // Which parameters are trained; nothing = all.
    std::function<bool(const Parameter&)> is_trained = nullptr;
};

// Says what may come next: what generating text needs of a model, and training does not.
class Generator {
public:
    virtual ~Generator() = default;

    // The scores of every word after the last of these tokens. No dropout. Takes no more of the arena than the losses of
    // a sample of so many tokens, so that no plan need know of it.
    [[nodiscard]] virtual std::vector<float> next_scores(std::span<const int32_t> tokens, const Weights& weights) = 0;
};

// A model as training sees it: named parameters and their gradients, grain by grain. All its memory comes from the arena
// of the kernels that it was made with.
class Model {
public:
    virtual ~Model() = default;

    [[nodiscard]] virtual const ParameterList& parameters() const = 0;

    // What the next micro-batches keep and recompute; which weights they read is said by the weights they are given. An
    // error, and nothing changed, if the choices are for another number of blocks.
    virtual void choose(const Choices& choices) = 0;
    [[nodiscard]] virtual const Choices& choices() const = 0;

    // Adds the gradient of the loss, summed over counted tokens, of each grain to the sink. Products never cross a
    // grain, and each row's bits are its own: the result is the same however grains are put together. The gradient
    // begins multiplied by the sink's loss scale, and so it arrives there.
    virtual void forward_backward(const TokenBatch& batch, const Weights& weights, GradientSink& sink) = 0;

    // The loss of each row, 0 where the target is not counted. No dropout.
    [[nodiscard]] virtual std::vector<float> losses(const TokenBatch& batch, const Weights& weights) = 0;

    // Itself as a generator; null = no text can come from it.
    [[nodiscard]] virtual Generator* generator() { return nullptr; }
};

}  // namespace accrue
