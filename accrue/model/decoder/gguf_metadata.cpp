#include "accrue/model/decoder/gguf_metadata.h"

#include "accrue/base/error.h"
#include "accrue/model/decoder/gguf_layout.h"

namespace accrue {
namespace {

// llama.cpp takes sizes as u32 and nothing else.
GgufValue size_value(int64_t size) {
    return static_cast<uint32_t>(size);
}

void add_rope(GgufMetadata& metadata, const std::string& prefix, const ModelConfig& config) {
    const RopeConfig& rope = config.rope;
    metadata.emplace_back(prefix + "rope.dimension_count", size_value(config.head_size));
    metadata.emplace_back(prefix + "rope.freq_base", static_cast<float>(rope.theta));
    if (rope.kind == RopeConfig::Kind::linear) {
        metadata.emplace_back(prefix + "rope.scaling.type", std::string("linear"));
        metadata.emplace_back(prefix + "rope.scaling.factor", static_cast<float>(rope.factor));
    }
    if (rope.kind == RopeConfig::Kind::llama3) {
        // llama.cpp knows Llama 3's scaling only as a tensor of factors; what they came from stands here for us.
        metadata.emplace_back("accrue.rope.factor", rope.factor);
        metadata.emplace_back("accrue.rope.low_freq_factor", rope.low_frequency);
        metadata.emplace_back("accrue.rope.high_freq_factor", rope.high_frequency);
        metadata.emplace_back("accrue.rope.original_context_length", size_value(rope.original_positions));
    }
}

void add_token(GgufMetadata& metadata, const std::string& key, const std::optional<uint32_t>& token) {
    if (token) {
        metadata.emplace_back("tokenizer.ggml." + key, *token);
    }
}

void add_flag(GgufMetadata& metadata, const std::string& key, const std::optional<bool>& flag) {
    if (flag) {
        metadata.emplace_back("tokenizer.ggml." + key, *flag);
    }
}

void check_tokenizer(const GgufTokenizer& tokenizer, int64_t vocabulary) {
    const auto tokens = static_cast<int64_t>(tokenizer.tokens.size());
    if (tokenizer.model != "gpt2" && tokenizer.model != "llama") {
        throw Error(cat("a GGUF tokenizer is \"gpt2\" or \"llama\", but \"", tokenizer.model, "\" was given."));
    }
    if (tokens > vocabulary) {
        throw Error(cat("the tokenizer has ", tokens, " tokens, but the model only ", vocabulary,
                        ". They do not belong together."));
    }
    const auto fits = [&](size_t size) { return size == 0 || static_cast<int64_t>(size) == tokens; };
    if (!fits(tokenizer.types.size()) || !fits(tokenizer.scores.size())) {
        throw Error(cat("a tokenizer of ", tokens, " tokens has ", tokenizer.types.size(), " types and ",
                        tokenizer.scores.size(), " scores; each token needs its own."));
    }
}

void add_tokenizer(GgufMetadata& metadata, const GgufTokenizer& tokenizer, int64_t vocabulary) {
    check_tokenizer(tokenizer, vocabulary);
    std::vector<std::string> tokens = tokenizer.tokens;
    std::vector<int32_t> types = tokenizer.types;
    types.resize(tokens.size(), GgufTokenizer::normal);
    types.resize(static_cast<size_t>(vocabulary), GgufTokenizer::unused);
    while (static_cast<int64_t>(tokens.size()) < vocabulary) {
        tokens.push_back(cat("[PAD", tokens.size(), "]"));
    }
    metadata.emplace_back("tokenizer.ggml.model", tokenizer.model);
    if (!tokenizer.pre.empty()) {
        metadata.emplace_back("tokenizer.ggml.pre", tokenizer.pre);
    }
    metadata.emplace_back("tokenizer.ggml.tokens", GgufArray(std::move(tokens)));
    metadata.emplace_back("tokenizer.ggml.token_type", GgufArray(std::move(types)));
    if (tokenizer.model == "llama") {
        std::vector<float> scores = tokenizer.scores;
        scores.resize(static_cast<size_t>(vocabulary), 0.0F);
        metadata.emplace_back("tokenizer.ggml.scores", GgufArray(std::move(scores)));
    } else {
        metadata.emplace_back("tokenizer.ggml.merges", GgufArray(tokenizer.merges));
    }
    add_token(metadata, "bos_token_id", tokenizer.begin);
    add_token(metadata, "eos_token_id", tokenizer.end);
    add_token(metadata, "unknown_token_id", tokenizer.unknown);
    add_token(metadata, "padding_token_id", tokenizer.padding);
    add_flag(metadata, "add_bos_token", tokenizer.add_begin);
    add_flag(metadata, "add_eos_token", tokenizer.add_end);
    add_flag(metadata, "add_space_prefix", tokenizer.add_space_prefix);
}

}  // namespace

GgufMetadata gguf_metadata(const ModelConfig& config, FloatFormat format, const std::string& name,
                           const std::optional<GgufTokenizer>& tokenizer) {
    const std::string architecture = gguf_architecture(config);
    const std::string prefix = architecture + ".";
    const bool has_rms_norm = config.norm == ModelConfig::Norm::rms;
    GgufMetadata metadata = {
        {"general.architecture", architecture},
        {"general.type", std::string("model")},
        {"general.name", name},
        {"general.file_type", gguf_numbers_of(format).file},
        {prefix + "vocab_size", size_value(config.vocabulary)},
        {prefix + "context_length", size_value(config.positions)},
        {prefix + "embedding_length", size_value(config.width)},
        {prefix + "block_count", size_value(config.layers)},
        {prefix + "feed_forward_length", size_value(config.ffn)},
        {prefix + "attention.head_count", size_value(config.heads)},
        {prefix + "attention.head_count_kv", size_value(config.key_heads)},
        {prefix + (has_rms_norm ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"),
         config.norm_epsilon}};
    if (config.heads * config.head_size != config.width) {
        metadata.emplace_back(prefix + "attention.key_length", size_value(config.head_size));
        metadata.emplace_back(prefix + "attention.value_length", size_value(config.head_size));
    }
    if (config.rope.kind != RopeConfig::Kind::none) {
        add_rope(metadata, prefix, config);
    }
    if (tokenizer) {
        add_tokenizer(metadata, *tokenizer, config.vocabulary);
    } else {
        metadata.emplace_back("tokenizer.ggml.model", std::string("none"));
    }
    return metadata;
}

}  // namespace accrue
