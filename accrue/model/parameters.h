#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/base/long_work.h"
#include "accrue/kernels/kernels.h"
#include "accrue/model/decoder/config.h"

namespace accrue {

// One named tensor, its place among the weights (and their copy) and, if it is trained, its place among the gradients
// (sums and moments).
struct Parameter {
    std::string name;  // Hugging Face's
    std::vector<int64_t> shape;
    int64_t offset = 0;  // in elements
    struct GradientPlace {
        int64_t tensor = 0;  // its number among the trained ones
        int64_t offset = 0;  // in elements
    };
    std::optional<GradientPlace> gradient = {};  // none: it is frozen, and costs no sum and no moment
    float initial_value = 0;
    float initial_deviation = 0;  // of a normal distribution around the initial value
    bool only_products = false;   // nothing else reads it: where there is a copy in bf16, nobody computes with the fp32

    [[nodiscard]] int64_t rows() const { return shape.size() == 2 ? shape[0] : 1; }
    [[nodiscard]] int64_t columns() const { return shape.back(); }
    [[nodiscard]] int64_t elements() const { return rows() * columns(); }
    [[nodiscard]] bool is_matrix() const { return shape.size() >= 2; }
};

// The tensors of a model in the order of their places.
struct ParameterList {
    std::vector<Parameter> parameters;
    int64_t flat_elements = 0;      // length of the flat weights, gaps for alignment included
    int64_t gradient_elements = 0;  // length of the flat gradients
    std::vector<int64_t> trained;   // the parameters that have a gradient, in their order

    // Adds a tensor behind the others; an error for a shape that nothing computes with.
    int64_t add(Parameter parameter);
    // Gives the parameters that `is_trained` names a place among the gradients, in the layout of the weights without what is
    // frozen. To be called when all tensors are there, and again whenever what is frozen changes.
    void place_gradients(const std::function<bool(const Parameter&)>& is_trained = nullptr);

    [[nodiscard]] int64_t count() const { return static_cast<int64_t>(parameters.size()); }
    // Elements from a parameter to the next one, with the gap between them.
    [[nodiscard]] int64_t span_of(int64_t index) const;
    // Numbers, without gaps.
    [[nodiscard]] int64_t elements() const;
    // The parameter that a gradient belongs to.
    [[nodiscard]] const Parameter& of_gradient(int64_t tensor) const {
        return (*this)[trained[static_cast<size_t>(tensor)]];
    }
    [[nodiscard]] const Parameter& operator[](int64_t index) const { return parameters[static_cast<size_t>(index)]; }
};

// Where the fp32 weights lie that a forward and a backward pass read beside a copy in bf16, one behind another without the others
// and in the same layout otherwise. What is frozen is among them: no update would ever give it again.
struct MasterPlaces {
    static constexpr int64_t kElsewhere = -1;

    std::vector<int64_t> by_parameter;  // in elements
    std::vector<int64_t> by_gradient;   // of those that are trained
    int64_t elements = 0;
};
[[nodiscard]] MasterPlaces places_beside_copy(const ParameterList& list);

// All weights of a model: the fp32 master and what products read (a bf16 copy, or the master itself), both flat [1, n].
struct Weights {
    View<const float> master;
    AnyConstView compute;
    // Where each parameter begins in the master, if that holds only what is read of it; empty = at its offset.
    std::span<const int64_t> master_places = {};

    [[nodiscard]] const float* master_of(const ParameterList& list, int64_t parameter) const {
        return master.data +
               (master_places.empty() ? list[parameter].offset : master_places[static_cast<size_t>(parameter)]);
    }
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

// All of them are trained.
[[nodiscard]] DecoderParameters decoder_parameters(const ModelConfig& config);

// Where some of the flat weights go: called by several threads, each with a piece that begins at that element.
using PutWeights = std::function<void(int64_t first, std::span<const float> values)>;
// Elements of a piece at most: each thread that fills weights holds one beside the arena, which plans count.
inline constexpr int64_t kPutElements = 4096;
// Into host memory.
[[nodiscard]] PutWeights put_into(std::span<float> weights);

// Fresh weights: each element a function of seed, tensor name and place, whoever computes it. Counts bytes.
void initialize_weights(const ParameterList& parameters, uint64_t seed, const PutWeights& put,
                        const LongWork& work = {});
// The same into host memory.
void initialize_weights(const ParameterList& parameters, uint64_t seed, std::span<float> weights,
                        const LongWork& work = {});

}  // namespace accrue
