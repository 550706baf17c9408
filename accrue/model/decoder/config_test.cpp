#include "accrue/model/decoder/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/test_places.h"

namespace accrue {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ModelConfig golden(const std::string& name) {
    const std::filesystem::path file = source_folder() / "tests/golden" / name / "config.json";
    return parse_model_config(read_text(file), file.string(), 48);
}

// A family's config with the keys given; what is absent takes the family's defaults.
json config_of(const std::string& family, const json& keys = json::object()) {
    json config = {{"model_type", family}};
    config.update(keys);
    return config;
}

// As far as the computation goes.
ModelConfig parse(const json& config, int64_t sequence_length = 0) {
    ModelConfig parsed = parse_model_config(config.dump(), "config.json", sequence_length);
    parsed.source_json.clear();
    return parsed;
}

std::string error(const json& config, int64_t sequence_length = 0) {
    try {
        (void)parse(config, sequence_length);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

int64_t parameters(const ModelConfig& config) {
    const int64_t query = config.heads * config.head_size;
    const int64_t keys = config.key_heads * config.head_size;
    const int64_t norm = config.norm == ModelConfig::Norm::layer ? 2 * config.width : config.width;
    const int64_t attention = config.width * (query + 2 * keys) + query * config.width;
    const int64_t attention_bias =
        (config.qkv_bias ? query + 2 * keys : 0) + (config.attention_output_bias ? config.width : 0);
    const bool is_swiglu = config.mlp == ModelConfig::Mlp::swiglu;
    const int64_t mlp = (is_swiglu ? 3 : 2) * config.width * config.ffn;
    const int64_t mlp_bias = config.mlp_bias ? (is_swiglu ? 2 : 1) * config.ffn + config.width : 0;
    const int64_t head_norms = config.query_key_norm ? 2 * config.head_size : 0;
    const int64_t embedding = config.vocabulary * config.width;
    return embedding + (config.tied ? 0 : embedding) +
           (config.learned_positions ? config.positions * config.width : 0) +
           config.layers * (attention + attention_bias + mlp + mlp_bias + 2 * norm + head_norms) + norm;
}

TEST(GoldenConfig, Gpt2) {
    const ModelConfig config = golden("gpt2");
    EXPECT_EQ(config.family, "gpt2");
    EXPECT_EQ(config.vocabulary, 101);
    EXPECT_EQ(config.width, 32);
    EXPECT_EQ(config.layers, 2);
    EXPECT_EQ(config.heads, 4);
    EXPECT_EQ(config.key_heads, 4);
    EXPECT_EQ(config.head_size, 8);
    EXPECT_EQ(config.ffn, 128);
    EXPECT_EQ(config.positions, 48);
    EXPECT_EQ(config.norm, ModelConfig::Norm::layer);
    EXPECT_EQ(config.norm_epsilon, 1e-5F);
    EXPECT_EQ(config.mlp, ModelConfig::Mlp::gelu);
    EXPECT_TRUE(config.learned_positions && config.qkv_bias && config.attention_output_bias && config.mlp_bias &&
                config.tied);
    EXPECT_FALSE(config.query_key_norm);
    EXPECT_EQ(config.rope, RopeConfig());
    EXPECT_EQ(config.embedding_dropout, 0);
    EXPECT_EQ(config.attention_dropout, 0);
    EXPECT_EQ(config.residual_dropout, 0);
    EXPECT_EQ(config.initializer_range, 0.02F);
    EXPECT_THAT(config.source_json, HasSubstr("\"n_embd\": 32"));
}

TEST(GoldenConfig, Llama) {
    const ModelConfig config = golden("llama");
    EXPECT_EQ(config.family, "llama");
    EXPECT_EQ(config.vocabulary, 101);
    EXPECT_EQ(config.width, 32);
    EXPECT_EQ(config.layers, 2);
    EXPECT_EQ(config.heads, 4);
    EXPECT_EQ(config.key_heads, 2);
    EXPECT_EQ(config.head_size, 8);
    EXPECT_EQ(config.ffn, 72);
    EXPECT_EQ(config.positions, 128);
    EXPECT_EQ(config.norm, ModelConfig::Norm::rms);
    EXPECT_EQ(config.norm_epsilon, 1e-5F);
    EXPECT_EQ(config.mlp, ModelConfig::Mlp::swiglu);
    EXPECT_FALSE(config.learned_positions || config.qkv_bias || config.attention_output_bias || config.mlp_bias ||
                 config.tied || config.query_key_norm);
    EXPECT_EQ(config.rope.kind, RopeConfig::Kind::plain);
    EXPECT_EQ(config.rope.theta, 10000);
}

TEST(GoldenConfig, TheOthersDifferWhereTheyShould) {
    EXPECT_TRUE(golden("llama-tied").tied);
    EXPECT_EQ(golden("llama-tied").rope.theta, 100000);
    EXPECT_EQ(golden("llama3-rope").rope, (RopeConfig{.kind = RopeConfig::Kind::llama3,
                                                      .theta = 500000,
                                                      .factor = 8,
                                                      .low_frequency = 1,
                                                      .high_frequency = 4,
                                                      .original_positions = 32}));
    const ModelConfig qwen2 = golden("qwen2");
    EXPECT_TRUE(qwen2.qkv_bias && qwen2.tied);
    EXPECT_FALSE(qwen2.attention_output_bias || qwen2.query_key_norm);
    EXPECT_EQ(qwen2.norm_epsilon, 1e-6F);
    const ModelConfig qwen3 = golden("qwen3");
    EXPECT_TRUE(qwen3.query_key_norm);
    EXPECT_FALSE(qwen3.qkv_bias || qwen3.attention_output_bias || qwen3.tied);
    EXPECT_EQ(qwen3.head_size, 16);
}

TEST(ModelConfig, AbsentKeysTakeHuggingFacesDefaults) {
    const ModelConfig gpt2 = parse(config_of("gpt2"));
    EXPECT_EQ(parameters(gpt2), 124439808);
    EXPECT_EQ(gpt2.embedding_dropout, 0.1F);
    EXPECT_EQ(gpt2.attention_dropout, 0.1F);
    EXPECT_EQ(gpt2.residual_dropout, 0.1F);
    const ModelConfig llama = parse(config_of("llama"));
    EXPECT_EQ(parameters(llama), 6738415616);
    EXPECT_EQ(llama.positions, 2048);
    EXPECT_EQ(llama.norm_epsilon, 1e-6F);
    const ModelConfig mistral = parse(config_of("mistral"));
    EXPECT_EQ(parameters(mistral), 7241732096);
    EXPECT_EQ(mistral.positions, 131072);
    EXPECT_EQ(parse(config_of("qwen2")).key_heads, 32);
    EXPECT_EQ(parse(config_of("qwen3", {{"hidden_size", 1024}})).head_size, 128);
}

TEST(ModelConfig, NullKeyHeadsAreAsManyAsHeads) {
    EXPECT_EQ(parse(config_of("mistral")).key_heads, 8);
    EXPECT_EQ(parse(config_of("mistral", {{"num_key_value_heads", nullptr}})).key_heads, 32);
}

TEST(ModelConfig, BiasesFollowTheFamily) {
    const ModelConfig llama = parse(config_of("llama", {{"attention_bias", true}, {"mlp_bias", true}}));
    EXPECT_TRUE(llama.qkv_bias && llama.attention_output_bias && llama.mlp_bias);
    const ModelConfig qwen3 = parse(config_of("qwen3", {{"attention_bias", true}}));
    EXPECT_TRUE(qwen3.qkv_bias && qwen3.attention_output_bias);
}

TEST(ModelConfig, Gpt2HasSecondNames) {
    const json first = {{"n_embd", 64}, {"n_layer", 3}, {"n_head", 2}, {"n_positions", 9}};
    const json second = {
        {"hidden_size", 64}, {"num_hidden_layers", 3}, {"num_attention_heads", 2}, {"max_position_embeddings", 9}};
    EXPECT_EQ(parse(config_of("gpt2", first)), parse(config_of("gpt2", second)));
    EXPECT_EQ(error(config_of("gpt2", {{"n_embd", 64}, {"hidden_size", 32}})),
              "config.json: n_embd is 64, but hidden_size, which means the same, is 32.");
}

TEST(ModelConfig, OldAndNewFormsOfRotaryPositionsAreEqual) {
    const json llama3 = {{"factor", 8.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 8192}};
    for (const auto& [kind, keys] :
         std::map<std::string, json>{{"default", json::object()}, {"linear", {{"factor", 2.0}}}, {"llama3", llama3}}) {
        json scaling = keys;
        scaling["rope_type"] = kind;
        const ModelConfig middle = parse(config_of("llama", {{"rope_theta", 5e5}, {"rope_scaling", scaling}}));
        scaling["rope_theta"] = 5e5;
        const ModelConfig today = parse(config_of("llama", {{"rope_parameters", scaling}}));
        json oldest = keys;
        oldest["type"] = kind;
        EXPECT_EQ(middle, today) << kind;
        EXPECT_EQ(parse(config_of("llama", {{"rope_theta", 5e5}, {"rope_scaling", oldest}})), today) << kind;
        EXPECT_EQ(today.rope.theta, 5e5);
    }
    EXPECT_EQ(parse(config_of("llama", {{"rope_scaling", nullptr}})), parse(config_of("llama")));
}

TEST(ModelConfig, RotaryPositionsThatAreNotKnownAreRefused) {
    const auto with = [](const json& scaling) { return error(config_of("llama", {{"rope_scaling", scaling}})); };
    for (const char* kind : {"yarn", "dynamic", "longrope", "su"}) {
        EXPECT_EQ(with({{"rope_type", kind}, {"factor", 2.0}}),
                  "config.json: rope_scaling.rope_type is \"" + std::string(kind) +
                      "\", but the known kinds are \"default\", \"linear\" and \"llama3\".");
    }
    EXPECT_THAT(with({{"type", "yarn"}}), HasSubstr("rope_scaling.type is \"yarn\", but the known kinds"));
    EXPECT_THAT(with({{"factor", 2.0}}), HasSubstr("rope_scaling.rope_type is absent, but the known kinds"));
    EXPECT_EQ(with({{"rope_type", "linear"}}),
              "config.json: rope_scaling.factor is absent, but this kind of rotary positions needs it.");
    EXPECT_EQ(with({{"rope_type", "linear"}, {"factor", 0}}),
              "config.json: rope_scaling.factor is 0, but must be above 0.");
    EXPECT_THAT(with({{"rope_type", "llama3"}, {"factor", 8.0}}), HasSubstr("rope_scaling.low_freq_factor is absent"));
    EXPECT_THAT(with({{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 4.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 32}}),
                HasSubstr("rope_scaling.high_freq_factor is 4.0, but must be above low_freq_factor."));
    EXPECT_EQ(with("linear"), "config.json: rope_scaling must be a JSON object, but is \"linear\".");
    EXPECT_THAT(with({{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}),
                HasSubstr("rope_scaling.partial_rotary_factor is 0.5, but only 1.0 is supported."));
    EXPECT_THAT(error(config_of("llama", {{"partial_rotary_factor", 0.5}})), HasSubstr("only 1.0 is supported"));
    EXPECT_EQ(error(config_of("llama", {{"rope_parameters", json::object()}, {"rope_scaling", json::object()}})),
              "config.json: rope_scaling is {}, but rope_parameters is there too; only one of them can hold.");
}

TEST(ModelConfig, KeysThatDoNotChangeTheComputationAreIgnored) {
    const json ignored = {{"bos_token_id", 7},
                          {"torch_dtype", "bfloat16"},
                          {"dtype", "float16"},
                          {"transformers_version", "9"},
                          {"use_cache", false},
                          {"summary_type", "mean"},
                          {"pruned_heads", json::object()},
                          {"num_local_experts", 1},
                          {"reorder_and_upcast_attn", true}};
    EXPECT_EQ(parse(config_of("gpt2", ignored)), parse(config_of("gpt2")));
    EXPECT_EQ(parse(config_of("gpt2", {{"activation_function", "gelu_pytorch_tanh"}})), parse(config_of("gpt2")));
    EXPECT_EQ(parse(config_of("llama", {{"hidden_act", "swish"}})), parse(config_of("llama")));
}

TEST(ModelConfig, AnotherComputationIsRefusedWithKeyAndValue) {
    struct Case {
        const char* family;
        json keys;
        const char* expected;
    };
    const std::vector<Case> cases = {
        {"gpt2",
         {{"activation_function", "relu"}},
         R"(activation_function is "relu", but only "gelu_new" and "gelu_pytorch_tanh" are supported.)"},
        {"gpt2", {{"scale_attn_weights", false}}, "scale_attn_weights is false, but only true is supported."},
        {"gpt2",
         {{"scale_attn_by_inverse_layer_idx", true}},
         "scale_attn_by_inverse_layer_idx is true, but only false is supported."},
        {"gpt2", {{"add_cross_attention", true}}, "add_cross_attention is true, but only false is supported."},
        {"llama", {{"hidden_act", "gelu"}}, R"(hidden_act is "gelu", but only "silu" and "swish" are supported.)"},
        {"llama", {{"pretraining_tp", 2}}, "pretraining_tp is 2, but only 1 is supported."},
        {"llama",
         {{"quantization_config", {{"bits", 4}}}},
         R"(quantization_config is {"bits":4}, but quantized weights cannot be trained.)"},
        {"llama", {{"num_local_experts", 8}}, "num_local_experts is 8, but mixtures of experts are not supported."},
        {"qwen2", {{"num_experts", 60}}, "num_experts is 60, but mixtures of experts are not supported."},
        {"llama", {{"is_encoder_decoder", true}}, "is_encoder_decoder is true, but only false is supported."},
        {"llama", {{"is_causal", false}}, "is_causal is false, but only true is supported."},
        {"llama",
         {{"cross_attention_hidden_size", 64}},
         "cross_attention_hidden_size is 64, but cross attention is not supported."},
        {"gpt2", {{"pruned_heads", {{"0", {1}}}}}, R"(pruned_heads is {"0":[1]}, but only {} is supported.)"},
        {"mistral", {{"attention_bias", true}}, "attention_bias is true, but only false is supported."},
        {"qwen3", {{"mlp_bias", true}}, "mlp_bias is true, but only false is supported."},
        {"qwen2",
         {{"layer_types", {"linear_attention"}}},
         R"(layer_types is ["linear_attention"], but only "full_attention" and "sliding_attention" are known.)"},
    };
    for (const Case& refused : cases) {
        EXPECT_EQ(error(config_of(refused.family, refused.keys)), std::string("config.json: ") + refused.expected);
    }
}

TEST(ModelConfig, ShapesThatMakeNoSenseAreRefused) {
    EXPECT_EQ(error(config_of("gpt2", {{"n_embd", 100}})),
              "config.json: n_embd is 100, which is not a multiple of n_head (12).");
    EXPECT_EQ(error(config_of("llama", {{"hidden_size", 100}})),
              "config.json: hidden_size is 100, which is not a multiple of num_attention_heads (32).");
    EXPECT_EQ(error(config_of("llama", {{"num_key_value_heads", 5}})),
              "config.json: num_attention_heads is 32, which is not a multiple of num_key_value_heads (5).");
    EXPECT_EQ(error(config_of("llama", {{"head_dim", 7}})),
              "config.json: a head has 7 numbers, but rotary positions need an even count.");
    for (const json& size : {json(0), json(-1), json(1.5), json("8"), json(4294967296), json(18446744073709551615U)}) {
        EXPECT_EQ(
            error(config_of("llama", {{"num_hidden_layers", size}})),
            "config.json: num_hidden_layers is " + size.dump() + ", but must be an integer from 1 to 2147483647.");
    }
}

// Sizes that are possible one by one, of a model that is not: its bytes would not even fit an int64.
TEST(ModelConfig, ModelsBeyondAllMeasureAreRefused) {
    EXPECT_EQ(error(config_of("llama", {{"num_hidden_layers", 10001}})),
              "config.json: the model has 10001 layers, and more than 10000 are not supported.");
    EXPECT_EQ(error(config_of("llama", {{"num_hidden_layers", 10000}})), "");
    EXPECT_THAT(error(config_of("gpt2", {{"n_embd", 2147483640}})),
                HasSubstr("billion parameters, and more than 10000 billion are not supported. Look for a size"));
    EXPECT_EQ(error(config_of("llama", {{"max_position_embeddings", 2147483647}})), "") << "these take no parameters";
    EXPECT_THAT(error(config_of("llama", {{"vocab_size", 2147483647}, {"hidden_size", 320000}})),
                HasSubstr("parameters, and more than"));
}

TEST(ModelConfig, ValuesOfWrongTypeOrRangeAreRefused) {
    EXPECT_EQ(error(config_of("llama", {{"rms_norm_eps", 0}})), "config.json: rms_norm_eps is 0, but must be above 0.");
    EXPECT_EQ(error(config_of("llama", {{"rope_theta", "big"}})),
              "config.json: rope_theta is \"big\", but must be a number.");
    EXPECT_EQ(error(config_of("llama", {{"attention_dropout", 1}})),
              "config.json: attention_dropout is 1, but must be at least 0 and below 1.");
    EXPECT_EQ(error(config_of("llama", {{"tie_word_embeddings", 1}})),
              "config.json: tie_word_embeddings is 1, but must be true or false.");
    EXPECT_EQ(error(config_of("llama", {{"hidden_act", 1}})), "config.json: hidden_act is 1, but must be a text.");
}

TEST(ModelConfig, SequencesLongerThanTheModelsPositionsAreRefused) {
    EXPECT_EQ(error(config_of("llama"), 2048), "");
    EXPECT_EQ(error(config_of("llama"), 2049),
              "config.json: the model has 2048 positions, but the run's sequences have 2049 tokens. "
              "Shorten data.sequence_length.");
}

TEST(ModelConfig, ASlidingWindowIsRefusedOnlyWhereItIsShorterThanTheSequences) {
    EXPECT_EQ(
        error(config_of("mistral", {{"sliding_window", 512}}), 513),
        "config.json: sliding_window is 512, but the run's sequences have 513 tokens, and attention in sliding windows "
        "is not supported. Make sequences as short as the window, or set sliding_window to null if the model was "
        "trained without.");
    EXPECT_EQ(error(config_of("mistral", {{"sliding_window", 512}}), 512), "");
    EXPECT_EQ(error(config_of("mistral", {{"sliding_window", 512}}), 0), "");
    EXPECT_EQ(error(config_of("mistral", {{"sliding_window", nullptr}}), 8192), "");
    EXPECT_THAT(error(config_of("mistral"), 8192),
                HasSubstr("sliding_window is 4096, but the run's sequences have 8192"));
}

TEST(ModelConfig, ASlidingWindowThatNoLayerUsesDoesNotMatter) {
    for (const char* family : {"qwen2", "qwen3"}) {
        const auto with = [family](json keys) {
            keys["sliding_window"] = 512;
            return error(config_of(family, keys), 1024);
        };
        EXPECT_EQ(with({{"use_sliding_window", false}}), "");
        EXPECT_EQ(with({{"use_sliding_window", true}, {"max_window_layers", 32}}), "");
        EXPECT_EQ(with({{"use_sliding_window", true}, {"layer_types", {"full_attention"}}}), "");
        EXPECT_THAT(with({{"use_sliding_window", true}}), HasSubstr("sliding_window is 512"));
        EXPECT_THAT(with({{"use_sliding_window", true}, {"max_window_layers", 0}}), HasSubstr("sliding_window is 512"));
        EXPECT_THAT(with({{"layer_types", {"full_attention", "sliding_attention"}}}),
                    HasSubstr("sliding_window is 512"));
    }
}

TEST(ModelConfig, ATextThatIsNoConfigIsRefused) {
    const auto error_of = [](const char* text) -> std::string {
        try {
            (void)parse_model_config(text, "config.json", 0);
            return "";
        } catch (const Error& error) {
            return error.what();
        }
    };
    EXPECT_THAT(error_of("{\"model_type\": "), HasSubstr("config.json is not valid JSON: "));
    EXPECT_THAT(error_of("{\"rope_theta\": 1e999}"), HasSubstr("config.json is not valid JSON: "));
    EXPECT_EQ(error_of("[]"), "config.json: the text must be a JSON object, but is [].");
}

TEST(Preset, HasTheSizeThatItsNameSays) {
    EXPECT_EQ(parameters(preset_config("tiny")), 3345152);
    EXPECT_EQ(parameters(preset_config("gpt2-124m")), 124475904);
    EXPECT_EQ(parameters(preset_config("llama-350m")), 373867520);
    EXPECT_EQ(parameters(preset_config("llama-1.5b")), 1452394496);
}

TEST(Preset, IsReadFromAConfigThatIsWrittenOutUnchanged) {
    for (const std::string& name : preset_names()) {
        const ModelConfig config = preset_config(name);
        EXPECT_EQ(parse_model_config(config.source_json, name, config.positions), config) << name;
        EXPECT_EQ(config.embedding_dropout + config.attention_dropout + config.residual_dropout, 0) << name;
    }
}

TEST(Preset, AnUnknownNameIsRefusedWithTheKnown) {
    try {
        (void)preset_config("huge");
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(),
                     "there is no preset \"huge\"; the presets are tiny, gpt2-124m, llama-350m, llama-1.5b.");
    }
}

}  // namespace
}  // namespace accrue
