#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/model/decoder/gguf_layout.h"
#include "accrue/model/decoder/gguf_metadata.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// The typed values of a file's metadata.
class Keys {
public:
    explicit Keys(const GgufFile& file) : file_(file) {}

    [[noreturn]] void fail(const std::string& key, const std::string& fault) const {
        throw Error(cat(file_.path().string(), ": key ", key, " ", fault, "."));
    }
    [[nodiscard]] bool has(const std::string& key) const { return file_.find(key) != nullptr; }
    [[nodiscard]] std::string text(const std::string& key) const {
        const auto* const value = std::get_if<std::string>(&required(key));
        if (value == nullptr) {
            fail(key, "is no text");
        }
        return *value;
    }
    // A size, whichever integer type it has.
    [[nodiscard]] int64_t size(const std::string& key) const {
        const std::optional<int64_t> value = std::visit([](const auto& held) { return whole(held); }, required(key));
        constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
        if (!value || *value < 1 || *value > kMost) {
            fail(key, cat("is ", value ? cat(*value) : type_name_of(required(key)), ", and a whole number from 1 to ",
                          kMost, " is needed"));
        }
        return *value;
    }
    [[nodiscard]] int64_t size(const std::string& key, int64_t otherwise) const {
        return has(key) ? size(key) : otherwise;
    }
    // A positive number; of an f32 the shortest decimal that means it, so that 1.3 does not become 1.2999999523.
    [[nodiscard]] double positive(const std::string& key) const {
        const GgufValue& value = required(key);
        double number = 0;
        if (const auto* wide = std::get_if<double>(&value)) {
            number = *wide;
        } else if (const auto* narrow = std::get_if<float>(&value)) {
            std::array<char, 64> text{};
            const auto end = std::to_chars(text.data(), text.data() + text.size(), *narrow).ptr;
            std::from_chars(text.data(), end, number);
        }
        if (!(number > 0) || !std::isfinite(number)) {
            fail(key, "is no number above 0");
        }
        return number;
    }
    [[nodiscard]] double positive(const std::string& key, double otherwise) const {
        return has(key) ? positive(key) : otherwise;
    }

private:
    template <class T>
    static std::optional<int64_t> whole(const T& value) {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
            return std::in_range<int64_t>(value) ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
        } else {
            return std::nullopt;
        }
    }
    [[nodiscard]] const GgufValue& required(const std::string& key) const {
        const GgufValue* value = file_.find(key);
        if (value == nullptr) {
            fail(key, "is missing");
        }
        return *value;
    }

    const GgufFile& file_;
};

const GgufTensor& matrix_of(const GgufFile& file, const std::string& name) {
    const GgufTensor* tensor = file.find_tensor(name);
    if (tensor == nullptr || tensor->shape.size() != 2) {
        throw Error(
            cat(file.path().string(), ": tensor ", name, tensor == nullptr ? " is missing." : " is no matrix."));
    }
    return *tensor;
}

// Llama 3's scaling from the factors it led to. Files of ours say what they came from; of others Llama 3.1's own
// numbers are tried, which leave only the factor open.
Json llama3_rope(const GgufFile& file, const Keys& keys, double theta, int64_t head_size) {
    const GgufTensor& tensor = *file.find_tensor(kRopeFactorsName);
    if (head_size < 2 || tensor.shape != std::vector<int64_t>{head_size / 2}) {
        throw Error(
            cat(file.path().string(), ": tensor ", kRopeFactorsName, " has not one factor for each pair of a head."));
    }
    std::vector<float> stored(static_cast<size_t>(tensor.elements()));
    file.read_floats(tensor, stored);
    const double largest = *std::max_element(stored.begin(), stored.end());
    const RopeConfig rope{.kind = RopeConfig::Kind::llama3,
                          .theta = theta,
                          .factor = keys.positive("accrue.rope.factor", largest),
                          .low_frequency = keys.positive("accrue.rope.low_freq_factor", 1),
                          .high_frequency = keys.positive("accrue.rope.high_freq_factor", 4),
                          .original_positions = keys.size("accrue.rope.original_context_length", 8192)};
    const std::vector<float> expected = rope_factors(rope, head_size);
    for (size_t i = 0; i < stored.size(); ++i) {
        // Others compute the factors in fp32: a few units of its last place.
        if (!(std::abs(stored[i] - expected[i]) <= 1e-4F * expected[i])) {
            throw Error(cat(file.path().string(), ": tensor ", kRopeFactorsName, " holds ", stored[i], " at element ",
                            i, " where Llama 3's scaling has ", expected[i], ". Other scalings are not supported."));
        }
    }
    return {{"rope_type", "llama3"},
            {"rope_theta", theta},
            {"factor", rope.factor},
            {"low_freq_factor", rope.low_frequency},
            {"high_freq_factor", rope.high_frequency},
            {"original_max_position_embeddings", rope.original_positions}};
}

Json rope_of(const GgufFile& file, const Keys& keys, const std::string& prefix, int64_t head_size) {
    const double theta = keys.positive(prefix + "rope.freq_base", 10000);
    if (keys.size(prefix + "rope.dimension_count", head_size) != head_size) {
        keys.fail(prefix + "rope.dimension_count", cat("is not the size of a head, ", head_size));
    }
    if (file.find_tensor(kRopeFactorsName) != nullptr) {
        return llama3_rope(file, keys, theta, head_size);
    }
    const std::string type_key = prefix + "rope.scaling.type";
    const std::string type = keys.has(type_key) ? keys.text(type_key) : "none";
    if (type == "linear") {
        return {
            {"rope_type", "linear"}, {"rope_theta", theta}, {"factor", keys.positive(prefix + "rope.scaling.factor")}};
    }
    if (type != "none") {
        keys.fail(type_key, cat("is \"", type, "\"; only \"none\" and \"linear\" are supported"));
    }
    return {{"rope_type", "default"}, {"rope_theta", theta}};
}

Json gpt2_config(const GgufFile& file, const Keys& keys) {
    return {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"activation_function", "gelu_new"},
            {"attn_pdrop", 0.0},
            {"embd_pdrop", 0.0},
            {"resid_pdrop", 0.0},
            {"layer_norm_epsilon", keys.positive("gpt2.attention.layer_norm_epsilon")},
            {"n_embd", keys.size("gpt2.embedding_length")},
            {"n_head", keys.size("gpt2.attention.head_count")},
            {"n_inner", keys.size("gpt2.feed_forward_length")},
            {"n_layer", keys.size("gpt2.block_count")},
            {"n_positions", keys.size("gpt2.context_length")},
            {"tie_word_embeddings", file.find_tensor("output.weight") == nullptr},
            {"vocab_size", matrix_of(file, "token_embd.weight").shape[0]},
            {"torch_dtype", "float32"}};
}

Json rotary_config(const GgufFile& file, const Keys& keys, const std::string& family) {
    const std::string prefix = family + ".";
    const int64_t width = keys.size(prefix + "embedding_length");
    const int64_t heads = keys.size(prefix + "attention.head_count");
    const int64_t head_size = keys.size(prefix + "attention.key_length", std::max<int64_t>(width / heads, 1));
    if (keys.size(prefix + "attention.value_length", head_size) != head_size) {
        keys.fail(prefix + "attention.value_length", cat("is not attention.key_length, ", head_size));
    }
    Json config = {
        {"architectures",
         {family == "llama" ? "LlamaForCausalLM" : (family == "qwen2" ? "Qwen2ForCausalLM" : "Qwen3ForCausalLM")}},
        {"model_type", family},
        {"head_dim", head_size},
        {"hidden_act", "silu"},
        {"hidden_size", width},
        {"intermediate_size", keys.size(prefix + "feed_forward_length")},
        {"max_position_embeddings", keys.size(prefix + "context_length")},
        {"num_attention_heads", heads},
        {"num_hidden_layers", keys.size(prefix + "block_count")},
        {"num_key_value_heads", keys.size(prefix + "attention.head_count_kv", heads)},
        {"rms_norm_eps", keys.positive(prefix + "attention.layer_norm_rms_epsilon")},
        {"rope_parameters", rope_of(file, keys, prefix, head_size)},
        {"tie_word_embeddings", file.find_tensor("output.weight") == nullptr},
        {"vocab_size", matrix_of(file, "token_embd.weight").shape[0]},
        {"torch_dtype", "float32"}};
    if (family == "llama") {
        config["attention_bias"] = file.find_tensor("blk.0.attn_q.bias") != nullptr;
        config["mlp_bias"] = file.find_tensor("blk.0.ffn_up.bias") != nullptr;
    }
    return config;
}

}  // namespace

ModelConfig config_of_gguf(const GgufFile& file) {
    const Keys keys(file);
    const std::string architecture = keys.text("general.architecture");
    if (architecture != "gpt2" && architecture != "llama" && architecture != "qwen2" && architecture != "qwen3") {
        keys.fail("general.architecture",
                  cat("is \"", architecture, "\"; \"gpt2\", \"llama\", \"qwen2\" and \"qwen3\" are supported"));
    }
    if (keys.has(architecture + ".expert_count")) {
        keys.fail(architecture + ".expert_count", "is there, and mixtures of experts are not supported");
    }
    const Json json = architecture == "gpt2" ? gpt2_config(file, keys) : rotary_config(file, keys, architecture);
    return parse_model_config(json.dump(2) + "\n", file.path().string(), 0);
}

}  // namespace accrue
