#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "accrue/base/long_work.h"
#include "accrue/kernels/kernels.h"
#include "accrue/model/decoder/config.h"

namespace accrue {

// One named tensor and its place in the flat buffers: weights, their copy, sums and moments share one layout.
struct Parameter {
    std::string name;  // Hugging Face's
    std::vector<int64_t> shape;
    int64_t offset = 0;  // in elements
    float initial_value = 0;
    float initial_deviation = 0;  // of a normal distribution around the initial value

    [[nodiscard]] int64_t rows() const { return shape.size() == 2 ? shape[0] : 1; }
    [[nodiscard]] int64_t columns() const { return shape.back(); }
    [[nodiscard]] int64_t elements() const { return rows() * columns(); }
    [[nodiscard]] bool is_matrix() const { return shape.size() >= 2; }
};

// The tensors of a model in the order of their places.
struct ParameterList {
    std::vector<Parameter> parameters;
    int64_t flat_elements = 0;  // length of the flat buffers, gaps for alignment included

    [[nodiscard]] int64_t count() const { return static_cast<int64_t>(parameters.size()); }
    // Trainable numbers, without gaps.
    [[nodiscard]] int64_t elements() const;
    [[nodiscard]] const Parameter& operator[](int64_t index) const { return parameters[static_cast<size_t>(index)]; }
};

// All weights of a model: the fp32 master and what products read (a bf16 copy, or the master itself), both flat [1, n].
struct Weights {
    View<const float> master;
    AnyConstView compute;
};

// A product's weight: one matrix in memory, made of one or more named tensors side by side (query, key and value, say).
struct LinearParameters {
    struct Part {
        int64_t weight = -1;  // index of the parameter
        int64_t bias = -1;    // -1 = none
        int64_t first_output = 0;
        int64_t outputs = 0;
    };
    WeightLayout layout = WeightLayout::out_in;
    int64_t in = 0;
    int64_t out = 0;
    std::vector<Part> parts = {};
};

struct NormParameters {
    int64_t gain = -1;
    int64_t bias = -1;  // -1 = an RMS norm
};

struct BlockParameters {
    NormParameters attention_norm;
    LinearParameters qkv;
    int64_t query_norm = -1;
    int64_t key_norm = -1;
    LinearParameters attention_output;
    NormParameters mlp_norm;
    LinearParameters mlp_input;  // fc, or gate and up
    LinearParameters mlp_output;
};

// Which parameters a decoder has, and which part of the computation reads which.
struct DecoderParameters {
    ParameterList list;
    int64_t embedding = -1;
    int64_t position_embedding = -1;
    std::vector<BlockParameters> blocks;
    NormParameters final_norm;
    LinearParameters head;  // reads the embedding when tied
};

[[nodiscard]] DecoderParameters decoder_parameters(const ModelConfig& config);

// Fills fresh weights: each element a function of seed, tensor name and place, whoever computes it. Counts bytes.
void initialize_weights(const ParameterList& parameters, uint64_t seed, std::span<float> weights,
                        const LongWork& work = {});

}  // namespace accrue
