#include "accrue/model/decoder/gguf_layout.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "accrue/base/error.h"
#include "accrue/model/decoder/rope_table.h"

namespace accrue {
namespace {

struct NamePair {
    std::string_view hugging_face;
    std::string_view gguf;
};

constexpr std::array<NamePair, 6> kOutsideNames = {{
    {"model.embed_tokens", "token_embd"},
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"model.norm", "output_norm"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
}};

constexpr std::array<NamePair, 17> kBlockNames = {{
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
}};

template <size_t count>
std::string renamed(const std::array<NamePair, count>& names, std::string_view stem, const std::string& whole) {
    const auto* const found =
        std::find_if(names.begin(), names.end(), [&](const NamePair& pair) { return pair.hugging_face == stem; });
    if (found == names.end()) {
        throw Error(cat("parameter ", whole, " has no name in GGUF."));
    }
    return std::string(found->gguf);
}

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight".
std::string gguf_name(const std::string& name) {
    const size_t ending = name.rfind('.');
    const std::string_view stem = std::string_view(name).substr(0, ending);
    for (const std::string_view root : {"model.layers.", "transformer.h."}) {
        if (stem.starts_with(root)) {
            const std::string_view rest = stem.substr(root.size());
            const size_t dot = rest.find('.');
            return cat("blk.", rest.substr(0, dot), ".", renamed(kBlockNames, rest.substr(dot + 1), name),
                       name.substr(ending));
        }
    }
    return renamed(kOutsideNames, stem, name) + name.substr(ending);
}

// Calls move(place in the model, place in the file) for each number.
template <class Move>
void for_each_place(const GgufPlace& place, size_t count, const Move& move) {
    if (place.order == GgufPlace::Order::same) {
        for (size_t i = 0; i < count; ++i) {
            move(i, i);
        }
        return;
    }
    if (place.order == GgufPlace::Order::transposed) {
        const auto rows = static_cast<size_t>(place.shape[0]);
        const auto columns = static_cast<size_t>(place.shape[1]);
        for (size_t row = 0; row < rows; ++row) {
            for (size_t column = 0; column < columns; ++column) {
                move(column * rows + row, row * columns + column);
            }
        }
        return;
    }
    const auto rows = static_cast<size_t>(place.shape[0]);
    const size_t columns = count / rows;
    const size_t head_size = rows / static_cast<size_t>(place.heads);
    for (size_t row = 0; row < rows; ++row) {
        const size_t head = row / head_size;
        const size_t inside = row % head_size;
        const size_t partner = inside % 2 * (head_size / 2) + inside / 2;
        for (size_t column = 0; column < columns; ++column) {
            move((head * head_size + partner) * columns + column, row * columns + column);
        }
    }
}

}  // namespace

std::string gguf_architecture(const ModelConfig& config) {
    const std::string& family = config.family;
    const bool is_qwen = family == "qwen2" || family == "qwen3";
    if (is_qwen && config.rope.kind == RopeConfig::Kind::llama3) {
        throw Error(cat("llama.cpp does not read rope_type \"llama3\" in ", family,
                        " models, so that this one cannot be ", "written as GGUF. Export it with --to hf."));
    }
    if (family == "qwen3" && config.qkv_bias) {
        throw Error(
            "llama.cpp does not read attention_bias in qwen3 models, so that this one cannot be written as "
            "GGUF. Export it with --to hf.");
    }
    return family == "mistral" ? "llama" : family;
}

GgufPlace gguf_place(const ModelConfig& config, const Parameter& parameter) {
    GgufPlace place{.name = gguf_name(parameter.name), .shape = parameter.shape};
    const bool learned_positions = place.name.starts_with("position_embd");
    place.always_fp32 = !parameter.is_matrix() || learned_positions;
    const bool is_llama = gguf_architecture(config) == "llama";
    const bool is_query = parameter.name.find("self_attn.q_proj.") != std::string::npos;
    const bool is_key = parameter.name.find("self_attn.k_proj.") != std::string::npos;
    if (is_llama && (is_query || is_key)) {
        place.order = GgufPlace::Order::interleaved;
        place.heads = is_query ? config.heads : config.key_heads;
    } else if (config.family == "gpt2" && parameter.is_matrix() && place.name.starts_with("blk.")) {
        place.order = GgufPlace::Order::transposed;
        std::reverse(place.shape.begin(), place.shape.end());
    }
    return place;
}

std::vector<float> ordered_for_gguf(const GgufPlace& place, std::span<const float> values) {
    std::vector<float> stored(values.size());
    for_each_place(place, values.size(), [&](size_t model, size_t file) { stored[file] = values[model]; });
    return stored;
}

void order_from_gguf(const GgufPlace& place, std::span<const float> stored, std::span<float> values) {
    for_each_place(place, values.size(), [&](size_t model, size_t file) { values[model] = stored[file]; });
}

std::vector<float> rope_factors(const RopeConfig& rope, int64_t head_size) {
    const RopeConfig plain{.kind = RopeConfig::Kind::plain, .theta = rope.theta};
    std::vector<float> factors;
    for (int64_t pair = 0; pair < head_size / 2; ++pair) {
        factors.push_back(
            static_cast<float>(rope_frequency(plain, head_size, pair) / rope_frequency(rope, head_size, pair)));
    }
    return factors;
}

}  // namespace accrue
