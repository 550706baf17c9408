#include <array>

#include "accrue/base/error.h"
#include "accrue/model/decoder/config.h"

namespace accrue {
namespace {

// A preset is a config.json, read by the parser that reads anyone's, and written beside the trained weights as it
// stands here.
struct Preset {
    const char* name;
    const char* json;
};

constexpr std::array<Preset, 4> kPresets = {{
    // 257 words: the byte tokenizer's, whose word 256 ends a document. 3.3 million parameters.
    {"tiny", R"({
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": null,
  "eos_token_id": 256,
  "head_dim": 64,
  "hidden_act": "silu",
  "hidden_size": 256,
  "initializer_range": 0.02,
  "intermediate_size": 704,
  "max_position_embeddings": 1024,
  "mlp_bias": false,
  "model_type": "llama",
  "num_attention_heads": 4,
  "num_hidden_layers": 4,
  "num_key_value_heads": 4,
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
  "tie_word_embeddings": false,
  "torch_dtype": "float32",
  "vocab_size": 257
}
)"},
    // GPT-2's smallest, with 50257 words rounded up to a multiple of 64.
    {"gpt2-124m", R"({
  "activation_function": "gelu_new",
  "architectures": ["GPT2LMHeadModel"],
  "attn_pdrop": 0.0,
  "bos_token_id": 50256,
  "embd_pdrop": 0.0,
  "eos_token_id": 50256,
  "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05,
  "model_type": "gpt2",
  "n_embd": 768,
  "n_head": 12,
  "n_inner": null,
  "n_layer": 12,
  "n_positions": 1024,
  "resid_pdrop": 0.0,
  "tie_word_embeddings": true,
  "torch_dtype": "float32",
  "vocab_size": 50304
}
)"},
    {"llama-350m", R"({
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 1,
  "eos_token_id": 2,
  "head_dim": 64,
  "hidden_act": "silu",
  "hidden_size": 1024,
  "initializer_range": 0.02,
  "intermediate_size": 2816,
  "max_position_embeddings": 2048,
  "mlp_bias": false,
  "model_type": "llama",
  "num_attention_heads": 16,
  "num_hidden_layers": 24,
  "num_key_value_heads": 16,
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
  "tie_word_embeddings": false,
  "torch_dtype": "float32",
  "vocab_size": 32000
}
)"},
    {"llama-1.5b", R"({
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 1,
  "eos_token_id": 2,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "initializer_range": 0.02,
  "intermediate_size": 5632,
  "max_position_embeddings": 2048,
  "mlp_bias": false,
  "model_type": "llama",
  "num_attention_heads": 16,
  "num_hidden_layers": 28,
  "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
  "tie_word_embeddings": false,
  "torch_dtype": "float32",
  "vocab_size": 32000
}
)"},
}};

}  // namespace

ModelConfig preset_config(const std::string& name) {
    std::string known;
    for (const Preset& preset : kPresets) {
        if (name == preset.name) {
            return parse_model_config(preset.json, cat("preset ", name), 0);
        }
        known += cat(known.empty() ? "" : ", ", preset.name);
    }
    throw Error(cat("there is no preset \"", name, "\"; the presets are ", known, "."));
}

std::vector<std::string> preset_names() {
    std::vector<std::string> names;
    names.reserve(kPresets.size());
    for (const Preset& preset : kPresets) {
        names.emplace_back(preset.name);
    }
    return names;
}

}  // namespace accrue
