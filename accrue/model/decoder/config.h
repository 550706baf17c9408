#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/model/shape.h"

namespace accrue {

struct RopeConfig {
    enum class Kind { none, plain, linear, llama3 };
    Kind kind = Kind::none;
    double theta = 10000;
    double factor = 1;               // linear, llama3
    double low_frequency = 1;        // llama3: low_freq_factor
    double high_frequency = 4;       // llama3: high_freq_factor
    int64_t original_positions = 0;  // llama3

    bool operator==(const RopeConfig&) const = default;
};

// What a decoder computes, whatever family it comes from.
struct ModelConfig {
    enum class Norm { layer, rms };
    enum class Mlp { gelu, swiglu };

    std::string family;  // Hugging Face's model_type: gpt2, llama, mistral, qwen2, qwen3
    int64_t vocabulary = 0;
    int64_t width = 0;
    int64_t layers = 0;
    int64_t heads = 0;
    int64_t key_heads = 0;
    int64_t head_size = 0;
    int64_t ffn = 0;
    int64_t positions = 0;  // the longest sequence
    Norm norm = Norm::rms;
    float norm_epsilon = 1e-5F;
    Mlp mlp = Mlp::swiglu;
    bool learned_positions = false;
    bool qkv_bias = false;
    bool attention_output_bias = false;
    bool mlp_bias = false;
    bool query_key_norm = false;
    bool tied = false;  // the head is the embedding
    RopeConfig rope;
    float embedding_dropout = 0;
    float attention_dropout = 0;
    float residual_dropout = 0;
    float initializer_range = 0.02F;
    // The config.json it was read from (or that describes a preset), written out unchanged beside trained weights.
    std::string source_json;

    bool operator==(const ModelConfig& other) const = default;
};

// The families that are decoders.
[[nodiscard]] std::vector<std::string> decoder_names();
// Reads the text of a decoder's config.json; `where` names it in errors. A key that changes the computation and is not
// supported is an error that names key and value and lists what is known. `sequence_length`: what the run will use, to
// judge sliding windows and positions; 0 = do not judge.
[[nodiscard]] ModelConfig parse_model_config(std::string_view json, const std::string& where, int64_t sequence_length);
// "tiny", "gpt2-124m", "llama-350m", "llama-1.5b"; an error lists them. tiny's vocabulary is that of the byte
// tokenizer.
[[nodiscard]] ModelConfig preset_config(const std::string& name);
[[nodiscard]] std::vector<std::string> preset_names();
// A preset changed by a shape or, with an empty preset, the shape's family alone. Its source_json loads in Hugging Face
// transformers. Shapes that cannot be are errors that name the keys.
[[nodiscard]] ModelConfig shaped_config(const std::string& preset, const ModelShape& shape, const Words& words);
// All that a model computes by, as JSON: two models with the same text compute the same. Where the configuration came from and how
// weights were initialized is not in it.
[[nodiscard]] std::string computation_json(const ModelConfig& config);

}  // namespace accrue
