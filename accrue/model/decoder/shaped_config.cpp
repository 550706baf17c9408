#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/model/decoder/config.h"

namespace accrue {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A family's config.json: that of a preset, whose sizes are all replaced, with these keys changed and those left out.
struct FamilyBase {
    const char* family;
    const char* preset;
    const char* changed;
    std::array<const char*, 3> left_out;
};

constexpr std::array<FamilyBase, 5> kFamilyBases = {{
    {"gpt2", "gpt2-124m", "{}", {}},
    {"llama", "tiny", "{}", {}},
    {"mistral",
     "tiny",
     R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": null})",
     {"attention_bias", "mlp_bias"}},
    {"qwen2",
     "tiny",
     R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rms_norm_eps": 1e-06,
         "use_sliding_window": false})",
     {"attention_bias", "mlp_bias", "head_dim"}},
    {"qwen3",
     "tiny",
     R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rms_norm_eps": 1e-06,
         "use_sliding_window": false})",
     {"mlp_bias"}},
}};

constexpr int64_t kUsualPositions = 1024;
// Widths from here on make an MLP of a coarser size, as in Llama.
constexpr int64_t kLargeWidth = 1024;
constexpr int64_t kEvenSize = 64;  // products like even sizes
constexpr int64_t kEvenSizeOfLarge = 256;

int64_t rounded_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

int64_t usual_ffn(const std::string& family, int64_t width) {
    return family == "gpt2" ? 4 * width
                            : rounded_up((8 * width + 2) / 3, width < kLargeWidth ? kEvenSize : kEvenSizeOfLarge);
}

OrderedJson family_json(const std::string& family) {
    for (const FamilyBase& base : kFamilyBases) {
        if (family != base.family) {
            continue;
        }
        OrderedJson json = OrderedJson::parse(preset_config(base.preset).source_json);
        json.update(OrderedJson::parse(base.changed));
        for (const char* key : base.left_out) {
            if (key != nullptr) {
                json.erase(key);
            }
        }
        return json;
    }
    throw Error(cat("model.family is \"", family, "\", which is no family that a shape can have."));
}

void require_sizes(const ModelShape& shape) {
    for (const auto& [name, size] :
         {std::pair{"layers", shape.layers}, {"width", shape.width}, {"heads", shape.heads}}) {
        if (size == 0) {
            throw Error(cat("model.family = \"", shape.family,
                            "\" stands for no preset: it needs model.layers, model.width and model.heads, but model.",
                            name, " is 0. Give it."));
        }
    }
}

int64_t vocabulary_for(const ModelShape& shape, const Words& words, int64_t of_preset) {
    if (shape.vocabulary > 0 && shape.vocabulary < words.count) {
        throw Error(cat("model.vocabulary is ", shape.vocabulary, ", but the tokenizer has ", words.count,
                        " words. Set it to at least that, or to 0 to take the tokenizer's."));
    }
    if (shape.vocabulary == 0 && words.count == 0 && of_preset == 0) {
        throw Error(
            "model.vocabulary is 0, and the data holds token ids, without a tokenizer whose words could be "
            "counted. Set model.vocabulary to one more than the largest id, or name a data.tokenizer.");
    }
    return shape.vocabulary > 0 ? shape.vocabulary
                                : std::max(of_preset, words.count > of_preset ? rounded_up(words.count, kEvenSize) : 0);
}

// All sizes of a shape, with what it leaves open filled in. `preset` is empty where the family stands alone.
ModelShape filled_in(const ModelShape& shape, const ModelConfig& preset, const Words& words) {
    const auto or_preset = [](int64_t given, int64_t otherwise) { return given > 0 ? given : otherwise; };
    ModelShape full = shape;
    full.family = preset.family.empty() ? shape.family : preset.family;
    full.layers = or_preset(shape.layers, preset.layers);
    full.width = or_preset(shape.width, preset.width);
    full.heads = or_preset(shape.heads, preset.heads);
    full.key_heads = or_preset(shape.key_heads, shape.heads > 0 ? shape.heads : preset.key_heads);
    full.ffn = or_preset(shape.ffn, shape.width > 0 ? usual_ffn(full.family, shape.width) : preset.ffn);
    full.positions = or_preset(shape.positions, preset.positions > 0 ? preset.positions : kUsualPositions);
    full.vocabulary = vocabulary_for(shape, words, preset.vocabulary);
    return full;
}

// "model.width is 256 (the preset's)".
std::string size_text(const char* name, int64_t given, int64_t used) {
    return cat("model.", name, " is ", used, given > 0 ? "" : " (the preset's)");
}

void check_heads(const ModelShape& shape, const ModelShape& full) {
    if (full.width % full.heads != 0) {
        throw Error(cat(size_text("width", shape.width, full.width), " and ",
                        size_text("heads", shape.heads, full.heads),
                        ", but the width must be a multiple of the heads. Change one of them."));
    }
    if (full.family == "gpt2") {
        if (full.key_heads != full.heads) {
            throw Error(cat(size_text("key_heads", shape.key_heads, full.key_heads), " and ",
                            size_text("heads", shape.heads, full.heads),
                            ", but gpt2 has keys and values for every head. Leave model.key_heads at 0."));
        }
        return;
    }
    if (full.heads % full.key_heads != 0) {
        throw Error(cat(size_text("heads", shape.heads, full.heads), " and ",
                        size_text("key_heads", shape.key_heads, full.key_heads),
                        ", but the heads must be a multiple of the key heads. Change one of them."));
    }
    if (full.width / full.heads % 2 != 0) {
        throw Error(cat(size_text("width", shape.width, full.width), " and ",
                        size_text("heads", shape.heads, full.heads), ", which makes heads of ", full.width / full.heads,
                        ", but the rotary positions of ", full.family, " need an even size. Change one of them."));
    }
}

void write_gpt2_sizes(const ModelShape& full, OrderedJson& json) {
    json["n_layer"] = full.layers;
    json["n_embd"] = full.width;
    json["n_head"] = full.heads;
    json["n_inner"] = full.ffn == 4 * full.width ? OrderedJson() : OrderedJson(full.ffn);
    json["n_positions"] = full.positions;
    for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
        json[key] = full.dropout;
    }
}

void write_rotary_sizes(const ModelShape& full, OrderedJson& json) {
    json["num_hidden_layers"] = full.layers;
    json["hidden_size"] = full.width;
    json["num_attention_heads"] = full.heads;
    json["num_key_value_heads"] = full.key_heads;
    json["intermediate_size"] = full.ffn;
    json["max_position_embeddings"] = full.positions;
    json["attention_dropout"] = full.dropout;
    if (json.contains("head_dim")) {
        json["head_dim"] = full.width / full.heads;
    }
}

void write_words(const ModelShape& full, OrderedJson& json) {
    json["vocab_size"] = full.vocabulary;
    for (const char* key : {"bos_token_id", "eos_token_id"}) {
        if (json[key].is_number() && json[key] >= full.vocabulary) {
            json[key] = nullptr;  // that of the preset's tokenizer
        }
    }
    if (full.tied) {
        json["tie_word_embeddings"] = *full.tied;
    }
}

}  // namespace

ModelConfig shaped_config(const std::string& preset, const ModelShape& shape, const Words& words) {
    ModelConfig base = preset.empty() ? ModelConfig{} : preset_config(preset);
    if (!preset.empty() && shape == ModelShape{} && words.count <= base.vocabulary) {
        return base;
    }
    OrderedJson json;
    if (preset.empty()) {
        json = family_json(shape.family);
        json["bos_token_id"] = nullptr;
        json["eos_token_id"] = words.end_of_document ? OrderedJson(*words.end_of_document) : OrderedJson();
        require_sizes(shape);
    } else {
        json = OrderedJson::parse(base.source_json);
    }
    const ModelShape full = filled_in(shape, base, words);
    check_heads(shape, full);
    (full.family == "gpt2" ? write_gpt2_sizes : write_rotary_sizes)(full, json);
    write_words(full, json);
    return parse_model_config(json.dump(2) + "\n", "the shape in [model]", 0);
}

}  // namespace accrue
