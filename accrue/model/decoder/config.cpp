#include "accrue/model/decoder/config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "accrue/base/error.h"
#include "accrue/model/config_fields.h"
#include "accrue/model/decoder/config_rope.h"

namespace accrue {
namespace {

// What Hugging Face's class of a family takes for keys that are absent (transformers 5, the same in 4).
struct FamilyDefaults {
    const char* family;
    int64_t vocabulary;
    int64_t width;
    int64_t ffn;
    int64_t layers;
    int64_t heads;
    int64_t key_heads;  // 0 = heads
    int64_t head_size;  // 0 = width / heads
    int64_t positions;
};

constexpr std::array<FamilyDefaults, 4> kRotaryFamilies = {{
    {"llama", 32000, 4096, 11008, 32, 32, 0, 0, 2048},
    {"mistral", 32000, 4096, 14336, 32, 32, 8, 0, 131072},
    {"qwen2", 151936, 4096, 22016, 32, 32, 32, 0, 32768},
    {"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 32768},
}};

// Of mistral, qwen2 and qwen3.
constexpr int64_t kDefaultSlidingWindow = 4096;
// Of qwen2 and qwen3: layers from this one on may slide.
constexpr double kDefaultMaxWindowLayers = 28;

// Keys that change what any family computes, with the one value that means "nothing unusual".
void refuse_unusual(const ConfigFields& fields) {
    if (fields.has("quantization_config")) {
        fields.refuse("quantization_config", "quantized weights cannot be trained");
    }
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
        if (fields.number(key, 0) > 1) {
            fields.refuse(key, "mixtures of experts are not supported");
        }
    }
    for (const char* key : {"is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder",
                            "use_bidirectional_attention", "use_mrope"}) {
        fields.require(key, false);
    }
    fields.require("is_causal", true);
    fields.require("pruned_heads", nlohmann::json::object());
    if (fields.has("cross_attention_hidden_size")) {
        fields.refuse("cross_attention_hidden_size", "cross attention is not supported");
    }
}

// A key with a second name, as GPT-2's have.
int64_t size_of_either(const ConfigFields& fields, const std::string& key, const std::string& other,
                       int64_t otherwise) {
    if (fields.has(key) && fields.has(other) && fields.value(key) != fields.value(other)) {
        fields.refuse(key, cat(other, ", which means the same, is ", fields.value(other).dump()));
    }
    return fields.size(key, fields.size(other, otherwise));
}

void check_divides(const ConfigFields& fields, const std::string& part_key, int64_t part, const std::string& whole_key,
                   int64_t whole) {
    if (whole % part != 0) {
        throw Error(cat(fields.where(), ": ", whole_key, " is ", whole, ", which is not a multiple of ", part_key, " (",
                        part, ")."));
    }
}

ModelConfig read_gpt2(const ConfigFields& fields) {
    ModelConfig config;
    config.vocabulary = fields.size("vocab_size", 50257);
    config.width = size_of_either(fields, "n_embd", "hidden_size", 768);
    config.layers = size_of_either(fields, "n_layer", "num_hidden_layers", 12);
    config.heads = size_of_either(fields, "n_head", "num_attention_heads", 12);
    config.positions = size_of_either(fields, "n_positions", "max_position_embeddings", 1024);
    config.ffn = fields.size("n_inner", 4 * config.width);
    check_divides(fields, "n_head", config.heads, "n_embd", config.width);
    config.key_heads = config.heads;
    config.head_size = config.width / config.heads;
    config.norm = ModelConfig::Norm::layer;
    config.norm_epsilon = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
    config.mlp = ModelConfig::Mlp::gelu;
    config.learned_positions = true;
    config.qkv_bias = true;
    config.attention_output_bias = true;
    config.mlp_bias = true;
    config.tied = fields.truth("tie_word_embeddings", true);
    config.embedding_dropout = fields.dropout("embd_pdrop", 0.1);
    config.attention_dropout = fields.dropout("attn_pdrop", 0.1);
    config.residual_dropout = fields.dropout("resid_pdrop", 0.1);

    const std::string activation = fields.text("activation_function", "gelu_new");
    if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {  // Two names of one formula.
        fields.refuse("activation_function", R"(only "gelu_new" and "gelu_pytorch_tanh" are supported)");
    }
    fields.require("scale_attn_weights", true);
    fields.require("scale_attn_by_inverse_layer_idx", false);
    return config;
}

// Does any layer look back only a window's length?
bool has_sliding_layers(const ConfigFields& fields, const ModelConfig& config) {
    bool layer_slides = false;
    if (fields.has("layer_types")) {
        for (const nlohmann::json& type : fields.value("layer_types")) {
            if (type != "full_attention" && type != "sliding_attention") {
                fields.refuse("layer_types", R"(only "full_attention" and "sliding_attention" are known)");
            }
            layer_slides = layer_slides || type == "sliding_attention";
        }
    }
    const bool has_window = !fields.names("sliding_window") || fields.has("sliding_window");
    if (config.family == "mistral") {
        return has_window;
    }
    if (config.family == "llama" || fields.has("layer_types")) {
        return layer_slides;
    }
    return has_window && fields.truth("use_sliding_window", false) &&
           static_cast<double>(config.layers) > fields.number("max_window_layers", kDefaultMaxWindowLayers);
}

// A window that is not shorter than the sequences is full attention.
void check_sliding_window(const ConfigFields& fields, const ModelConfig& config, int64_t sequence_length) {
    const int64_t window = fields.size("sliding_window", kDefaultSlidingWindow);
    if (has_sliding_layers(fields, config) && sequence_length > window) {
        throw Error(
            cat(fields.where(), ": sliding_window is ", window, ", but the run's sequences have ", sequence_length,
                " tokens, and attention in sliding windows is not supported. Make sequences as short as the window, or "
                "set sliding_window to null if the model was trained without."));
    }
}

void read_biases(const ConfigFields& fields, ModelConfig& config) {
    const bool has_attention_bias = config.family == "llama" || config.family == "qwen3";
    if (has_attention_bias) {
        config.qkv_bias = fields.truth("attention_bias", false);
        config.attention_output_bias = config.qkv_bias;
    } else if (config.family == "qwen2") {
        config.qkv_bias = true;
    } else {
        fields.require("attention_bias", false);
    }
    if (config.family == "llama") {
        config.mlp_bias = fields.truth("mlp_bias", false);
    } else {
        fields.require("mlp_bias", false);
    }
}

// Absent, null and given are three things here: absent takes the family's default, null means one for each head.
int64_t read_key_heads(const ConfigFields& fields, const FamilyDefaults& defaults, int64_t heads) {
    const bool is_null = fields.names("num_key_value_heads") && !fields.has("num_key_value_heads");
    return fields.size("num_key_value_heads", is_null || defaults.key_heads == 0 ? heads : defaults.key_heads);
}

int64_t read_head_size(const ConfigFields& fields, const FamilyDefaults& defaults, const ModelConfig& config) {
    if (fields.has("head_dim")) {
        return fields.size("head_dim", 1);
    }
    if (defaults.head_size != 0 && !fields.names("head_dim")) {
        return defaults.head_size;
    }
    check_divides(fields, "num_attention_heads", config.heads, "hidden_size", config.width);
    return config.width / config.heads;
}

ModelConfig read_rotary_family(const ConfigFields& fields, const FamilyDefaults& defaults, int64_t sequence_length) {
    ModelConfig config;
    config.family = defaults.family;
    config.vocabulary = fields.size("vocab_size", defaults.vocabulary);
    config.width = fields.size("hidden_size", defaults.width);
    config.layers = fields.size("num_hidden_layers", defaults.layers);
    config.heads = fields.size("num_attention_heads", defaults.heads);
    config.key_heads = read_key_heads(fields, defaults, config.heads);
    config.head_size = read_head_size(fields, defaults, config);
    config.ffn = fields.size("intermediate_size", defaults.ffn);
    config.positions = fields.size("max_position_embeddings", defaults.positions);
    config.norm_epsilon = static_cast<float>(fields.positive("rms_norm_eps", 1e-6));
    config.tied = fields.truth("tie_word_embeddings", false);
    config.attention_dropout = fields.dropout("attention_dropout", 0);
    config.query_key_norm = config.family == "qwen3";
    config.rope = read_rope(fields);
    read_biases(fields, config);

    const std::string activation = fields.text("hidden_act", "silu");
    if (activation != "silu" && activation != "swish") {  // Two names of one function.
        fields.refuse("hidden_act", R"(only "silu" and "swish" are supported)");
    }
    fields.require("pretraining_tp", 1);
    check_divides(fields, "num_key_value_heads", config.key_heads, "num_attention_heads", config.heads);
    if (config.head_size % 2 != 0) {
        throw Error(cat(fields.where(), ": a head has ", config.head_size,
                        " numbers, but rotary positions need an even count."));
    }
    check_sliding_window(fields, config, sequence_length);
    return config;
}

ModelConfig read_family(const ConfigFields& fields, int64_t sequence_length) {
    const std::string family = fields.text("model_type", "");
    if (family == "gpt2") {
        return read_gpt2(fields);
    }
    for (const FamilyDefaults& defaults : kRotaryFamilies) {
        if (family == defaults.family) {
            return read_rotary_family(fields, defaults, sequence_length);
        }
    }
    fields.refuse("model_type", "that is no decoder");
}

// Far beyond every model there is: a mistake in the file. Below it no count of parameters or their bytes exceeds an int64.
void check_extent(const std::string& where, const ModelConfig& config) {
    constexpr int64_t kMostLayers = 10'000;
    constexpr double kMostParameters = 1e13;
    if (config.layers > kMostLayers) {
        throw Error(cat(where, ": the model has ", config.layers, " layers, and more than ", kMostLayers,
                        " are not supported."));
    }
    const auto width = static_cast<double>(config.width);
    const auto attention = static_cast<double>(config.heads + config.key_heads) * static_cast<double>(config.head_size);
    const double block = width * (2 * attention + 3 * static_cast<double>(config.ffn));
    const double tables =
        width * static_cast<double>(2 * config.vocabulary + (config.learned_positions ? config.positions : 0));
    const double parameters = static_cast<double>(config.layers) * block + tables;
    if (parameters > kMostParameters) {
        throw Error(cat(where, ": a model of these sizes has about ", std::llround(parameters / 1e9),
                        " billion parameters, and more than ", std::llround(kMostParameters / 1e9),
                        " billion are not supported. Look for a size that is too large."));
    }
}

}  // namespace

std::vector<std::string> decoder_names() {
    std::vector<std::string> names = {"gpt2"};
    for (const FamilyDefaults& defaults : kRotaryFamilies) {
        names.emplace_back(defaults.family);
    }
    return names;
}

ModelConfig parse_model_config(std::string_view json, const std::string& where, int64_t sequence_length) {
    const ConfigFields fields = ConfigFields::parse(json, where);
    refuse_unusual(fields);
    ModelConfig config = read_family(fields, sequence_length);
    check_extent(where, config);
    config.family = fields.text("model_type", "");
    config.initializer_range = static_cast<float>(fields.positive("initializer_range", 0.02));
    config.source_json = std::string(json);
    if (sequence_length > config.positions) {
        throw Error(cat(where, ": the model has ", config.positions, " positions, but the run's sequences have ",
                        sequence_length, " tokens. Shorten data.sequence_length."));
    }
    return config;
}

}  // namespace accrue
