#include "accrue/model/parameters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "accrue/base/error.h"
#include "accrue/base/random.h"

namespace accrue {
namespace {

constexpr int64_t kAlignmentElements = 16;  // 64 bytes of fp32

// Builds the list in the order of use; tensors of one product stay adjacent, so that they can be read as one matrix.
class Builder {
public:
    explicit Builder(const ModelConfig& config) : config_(config) {}

    int64_t add(std::string name, std::vector<int64_t> shape, float value, float deviation) {
        return list.add({.name = std::move(name),
                         .shape = std::move(shape),
                         .initial_value = value,
                         .initial_deviation = deviation});
    }

    void align() {
        list.flat_elements = (list.flat_elements + kAlignmentElements - 1) / kAlignmentElements * kAlignmentElements;
    }

    NormParameters norm(const std::string& name) {
        align();
        NormParameters result{.gain = add(name + ".weight", {config_.width}, 1, 0)};
        if (config_.norm == ModelConfig::Norm::layer) {
            align();
            result.bias = add(name + ".bias", {config_.width}, 0, 0);
        }
        return result;
    }

    struct NamedOutputs {
        std::string name;
        int64_t outputs;
    };

    LinearParameters linear(const std::vector<NamedOutputs>& tensors, int64_t in, WeightLayout layout, bool bias,
                            float deviation) {
        LinearParameters result{.layout = layout, .in = in};
        align();
        for (const auto& [name, outputs] : tensors) {
            const auto shape = layout == WeightLayout::out_in ? std::vector{outputs, in} : std::vector{in, outputs};
            result.parts.push_back(
                {.weight = add(name + ".weight", shape, 0, deviation), .first_output = result.out, .outputs = outputs});
            list.parameters.back().only_products = true;
            result.out += outputs;
        }
        align();
        for (size_t part = 0; bias && part < tensors.size(); ++part) {
            result.parts[part].bias = add(tensors[part].name + ".bias", {tensors[part].outputs}, 0, 0);
        }
        return result;
    }

    ParameterList list;

private:
    const ModelConfig& config_;
};

BlockParameters gpt2_block(Builder& builder, const ModelConfig& config, const std::string& prefix) {
    const float deviation = config.initializer_range;
    // GPT-2 draws what writes to the residual stream narrower, by the number of such writes.
    const float residual_deviation = deviation / std::sqrt(2.0F * static_cast<float>(config.layers));
    constexpr auto kLayout = WeightLayout::in_out;
    BlockParameters block;
    block.attention_norm = builder.norm(prefix + "ln_1");
    block.qkv = builder.linear({{prefix + "attn.c_attn", 3 * config.width}}, config.width, kLayout, true, deviation);
    block.attention_output =
        builder.linear({{prefix + "attn.c_proj", config.width}}, config.width, kLayout, true, residual_deviation);
    block.mlp_norm = builder.norm(prefix + "ln_2");
    block.mlp_input = builder.linear({{prefix + "mlp.c_fc", config.ffn}}, config.width, kLayout, true, deviation);
    block.mlp_output =
        builder.linear({{prefix + "mlp.c_proj", config.width}}, config.ffn, kLayout, true, residual_deviation);
    return block;
}

BlockParameters llama_block(Builder& builder, const ModelConfig& config, const std::string& prefix) {
    const float deviation = config.initializer_range;
    const int64_t query = config.heads * config.head_size;
    const int64_t key = config.key_heads * config.head_size;
    constexpr auto kLayout = WeightLayout::out_in;
    BlockParameters block;
    block.attention_norm = builder.norm(prefix + "input_layernorm");
    block.qkv = builder.linear(
        {{prefix + "self_attn.q_proj", query}, {prefix + "self_attn.k_proj", key}, {prefix + "self_attn.v_proj", key}},
        config.width, kLayout, config.qkv_bias, deviation);
    if (config.query_key_norm) {
        builder.align();
        block.query_norm = builder.add(prefix + "self_attn.q_norm.weight", {config.head_size}, 1, 0);
        builder.align();
        block.key_norm = builder.add(prefix + "self_attn.k_norm.weight", {config.head_size}, 1, 0);
    }
    block.attention_output = builder.linear({{prefix + "self_attn.o_proj", config.width}}, query, kLayout,
                                            config.attention_output_bias, deviation);
    block.mlp_norm = builder.norm(prefix + "post_attention_layernorm");
    block.mlp_input = builder.linear({{prefix + "mlp.gate_proj", config.ffn}, {prefix + "mlp.up_proj", config.ffn}},
                                     config.width, kLayout, config.mlp_bias, deviation);
    block.mlp_output =
        builder.linear({{prefix + "mlp.down_proj", config.width}}, config.ffn, kLayout, config.mlp_bias, deviation);
    return block;
}

constexpr int64_t kPieceElements = int64_t{1} << 16;

uint64_t stream_of(const Parameter& parameter, uint64_t seed) {
    uint64_t stream = mix(seed);
    for (const char letter : parameter.name) {
        stream = mix(stream, static_cast<uint64_t>(letter));
    }
    return stream;
}

// What one thread fills at a time: some elements of one tensor.
struct FreshPiece {
    const Parameter* parameter = nullptr;
    uint64_t stream = 0;
    int64_t first = 0;
    int64_t end = 0;

    // Its elements from `begin` on.
    void fill(int64_t begin, std::span<float> values) const {
        for (float& value : values) {
            value = parameter->initial_value;
            if (parameter->initial_deviation > 0) {
                value += parameter->initial_deviation * normal(mix(stream, static_cast<uint64_t>(begin)));
            }
            ++begin;
        }
    }
};

}  // namespace

int64_t ParameterList::add(Parameter parameter) {
    if (parameter.shape.empty() || parameter.shape.size() > 2) {
        throw Error(cat("parameter ", parameter.name, " has ", parameter.shape.size(),
                        " dimensions; parameters with one or two are computed with"));
    }
    parameter.offset = flat_elements;
    flat_elements += parameter.elements();
    parameters.push_back(std::move(parameter));
    return count() - 1;
}

void ParameterList::place_gradients(const std::function<bool(const Parameter&)>& is_trained) {
    trained.clear();
    gradient_elements = 0;
    for (int64_t index = 0; index < count(); ++index) {
        Parameter& parameter = parameters[static_cast<size_t>(index)];
        parameter.gradient.reset();
        if (is_trained && !is_trained(parameter)) {
            continue;
        }
        parameter.gradient = {.tensor = std::ssize(trained), .offset = gradient_elements};
        trained.push_back(index);
        gradient_elements += span_of(index);
    }
}

int64_t ParameterList::span_of(int64_t index) const {
    return (index + 1 < count() ? (*this)[index + 1].offset : flat_elements) - (*this)[index].offset;
}

int64_t ParameterList::elements() const {
    int64_t total = 0;
    for (const Parameter& parameter : parameters) {
        total += parameter.elements();
    }
    return total;
}

MasterPlaces places_beside_copy(const ParameterList& list) {
    MasterPlaces places;
    for (int64_t index = 0; index < list.count(); ++index) {
        const Parameter& parameter = list[index];
        const bool is_elsewhere = parameter.only_products && parameter.gradient;
        places.by_parameter.push_back(is_elsewhere ? MasterPlaces::kElsewhere : places.elements);
        places.elements += is_elsewhere ? 0 : list.span_of(index);
    }
    for (const int64_t index : list.trained) {
        places.by_gradient.push_back(places.by_parameter[static_cast<size_t>(index)]);
    }
    return places;
}

DecoderParameters decoder_parameters(const ModelConfig& config) {
    const bool gpt2 = config.family == "gpt2";
    const std::string root = gpt2 ? "transformer." : "model.";
    Builder builder(config);
    DecoderParameters result;
    result.embedding = builder.add(root + (gpt2 ? "wte.weight" : "embed_tokens.weight"),
                                   {config.vocabulary, config.width}, 0, config.initializer_range);
    if (config.learned_positions) {
        builder.align();
        result.position_embedding =
            builder.add(root + "wpe.weight", {config.positions, config.width}, 0, config.initializer_range);
    }
    for (int64_t layer = 0; layer < config.layers; ++layer) {
        const std::string prefix = root + (gpt2 ? "h." : "layers.") + std::to_string(layer) + ".";
        result.blocks.push_back(gpt2 ? gpt2_block(builder, config, prefix) : llama_block(builder, config, prefix));
    }
    result.final_norm = builder.norm(root + (gpt2 ? "ln_f" : "norm"));
    if (config.tied) {
        result.head = {.in = config.width, .out = config.vocabulary};
        result.head.parts.push_back({.weight = result.embedding, .outputs = config.vocabulary});
    } else {
        result.head = builder.linear({{"lm_head", config.vocabulary}}, config.width, WeightLayout::out_in, false,
                                     config.initializer_range);
    }
    builder.align();
    result.list = std::move(builder.list);
    result.list.place_gradients();
    return result;
}

void initialize_weights(const ParameterList& parameters, uint64_t seed, const PutWeights& put, const LongWork& work) {
    std::vector<FreshPiece> pieces;
    for (const Parameter& parameter : parameters.parameters) {
        const uint64_t stream = stream_of(parameter, seed);
        for (int64_t first = 0; first < parameter.elements(); first += kPieceElements) {
            pieces.push_back({.parameter = &parameter,
                              .stream = stream,
                              .first = first,
                              .end = std::min(first + kPieceElements, parameter.elements())});
        }
    }
    WorkCount count(work, parameters.elements() * static_cast<int64_t>(sizeof(float)));
    work.run(std::ssize(pieces), [&](int64_t item) {
        const FreshPiece& piece = pieces[static_cast<size_t>(item)];
        std::array<float, kPutElements> values;
        for (int64_t first = piece.first; first < piece.end; first += kPutElements) {
            const auto some = std::span(values).first(static_cast<size_t>(std::min(kPutElements, piece.end - first)));
            piece.fill(first, some);
            put(piece.parameter->offset + first, some);
        }
        count.add((piece.end - piece.first) * static_cast<int64_t>(sizeof(float)));
    });
}

void initialize_weights(const ParameterList& parameters, uint64_t seed, std::span<float> weights,
                        const LongWork& work) {
    initialize_weights(parameters, seed, put_into(weights), work);
}

PutWeights put_into(std::span<float> weights) {
    return [weights](int64_t first, std::span<const float> values) {
        std::copy(values.begin(), values.end(), weights.begin() + first);
    };
}

}  // namespace accrue
