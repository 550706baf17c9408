#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/kernels/gradient_sink.h"
#include "accrue/kernels/kernels.h"
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

// A model as training sees it: named parameters and their gradients, grain by grain.
class Model {
public:
    virtual ~Model() = default;

    [[nodiscard]] virtual const ParameterList& parameters() const = 0;

    // Adds the gradient of the loss, summed over counted tokens, of each grain to the sink. Products never cross a
    // grain, and each row's bits are its own: the result is the same however grains are put together.
    virtual void forward_backward(const TokenBatch& batch, const Weights& weights, GradientSink& sink) = 0;

    // The loss of each row, 0 where the target is not counted. No dropout.
    [[nodiscard]] virtual std::vector<float> losses(const TokenBatch& batch, const Weights& weights) = 0;

    // The scores of every word after the last of these tokens. No dropout.
    [[nodiscard]] virtual std::vector<float> next_scores(std::span<const int32_t> tokens, const Weights& weights) = 0;
};

}  // namespace accrue
