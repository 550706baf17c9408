#include "accrue/model/export.h"

#include <array>
#include <functional>
#include <map>

#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/kernels/device.h"
#include "accrue/model/decoder/gguf_layout.h"
#include "accrue/model/export_testing.h"

namespace accrue::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Kind = ExportRequest::Kind;

std::vector<float> scores_of(const ModelConfig& config, const std::vector<float>& weights) {
    Pool pool(1);
    Arena arena(int64_t{64} << 20);
    const auto kernels = make_cpu_kernels(pool, arena);
    Decoder decoder(config, {.dtype = DType::fp32, .longest_sample = 8}, *kernels);
    const View<const float> flat(weights.data(), 1, static_cast<int64_t>(weights.size()));
    const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
    return decoder.next_scores(tokens, {.master = flat, .compute = flat});
}

// Every number that `rounds` selects, rounded as a file of that format would.
std::vector<float> rounded(const Loaded& model, FloatFormat format,
                           const std::function<bool(const Parameter&)>& rounds) {
    std::vector<float> weights = model.weights;
    for (const Parameter& parameter : decoder_parameters(model.config).list.parameters) {
        if (rounds(parameter)) {
            const auto values = std::span(weights).subspan(static_cast<size_t>(parameter.offset),
                                                           static_cast<size_t>(parameter.elements()));
            read_stored(stored_bytes(values, format, ""), format, values);
        }
    }
    return weights;
}

constexpr std::array<const char*, 6> kModels = {"gpt2", "llama", "llama-tied", "llama3-rope", "qwen2", "qwen3"};

TEST_F(ExportTest, AnFp32GgufReadAgainGivesTheSameScores) {
    for (const char* name : kModels) {
        SCOPED_TRACE(name);
        const Loaded model = load_folder(golden_folder(name));
        const GgufModel again = read_gguf_model(gguf_of(model));
        EXPECT_EQ(again.weights, model.weights);
        EXPECT_EQ(again.config.rope, model.config.rope);
        EXPECT_EQ(again.config.norm_epsilon, model.config.norm_epsilon);
        EXPECT_EQ(scores_of(again.config, again.weights), scores_of(model.config, model.weights));
    }
}

TEST_F(ExportTest, ASmallerGgufIsTheModelWithRoundedMatrices) {
    for (const char* name : kModels) {
        for (const FloatFormat format : {FloatFormat::bf16, FloatFormat::fp16}) {
            SCOPED_TRACE(cat(name, ", ", name_of(format)));
            const Loaded model = load_folder(golden_folder(name));
            const GgufModel again = read_gguf_model(gguf_of(model, format));
            const auto expected = rounded(model, format, [](const Parameter& parameter) {
                return parameter.is_matrix() && !parameter.name.ends_with("wpe.weight");
            });
            EXPECT_NE(expected, model.weights);
            EXPECT_EQ(again.weights, expected);
            EXPECT_EQ(scores_of(again.config, again.weights), scores_of(model.config, expected));
        }
    }
}

TEST_F(ExportTest, AHuggingFaceFolderHoldsTheModelInTheFormatAskedFor) {
    for (const char* name : kModels) {
        for (const FloatFormat format : {FloatFormat::fp32, FloatFormat::bf16, FloatFormat::fp16}) {
            SCOPED_TRACE(cat(name, ", ", name_of(format)));
            const Loaded model = load_folder(golden_folder(name));
            const fs::path output = folder_ / cat(name, name_of(format));
            const ExportReport report =
                export_model(*decoder_spec(model.config), model.weights, {.format = format, .output = output});
            EXPECT_EQ(report.parameters, decoder_parameters(model.config).list.elements());
            EXPECT_GT(report.bytes, report.parameters * bytes_of(format));
            const SafetensorsFile file(output / "model.safetensors");
            for (const auto& [tensor_name, tensor] : file.tensors()) {
                EXPECT_EQ(tensor.dtype, stored_name_of(format)) << tensor_name;
            }
            const Loaded again = load_folder(output);
            EXPECT_EQ(again.weights, rounded(model, format, [](const Parameter&) { return true; }));
            EXPECT_EQ(scores_of(again.config, again.weights), scores_of(model.config, again.weights));
        }
    }
}

TEST_F(ExportTest, ConfigJsonNamesTheFormatUnderItsOwnKeyAndKeepsTheRest) {
    const std::map<FloatFormat, std::string> names = {
        {FloatFormat::fp32, "float32"}, {FloatFormat::bf16, "bfloat16"}, {FloatFormat::fp16, "float16"}};
    for (const char* key : {"dtype", "torch_dtype"}) {
        for (const auto& [format, name] : names) {
            Loaded model = load_folder(golden_folder("llama"));
            auto json = nlohmann::json::parse(model.config.source_json);
            json.erase("dtype");
            json[key] = "float64";
            model.config.source_json = json.dump();
            const fs::path output = folder_ / cat(key, name);
            export_model(*decoder_spec(model.config), model.weights, {.format = format, .output = output});
            json[key] = name;
            EXPECT_EQ(nlohmann::json::parse(read_text(output / "config.json")), json);
        }
    }
}

TEST_F(ExportTest, FilesGivenStandBesideTheWeights) {
    write_text(folder_ / "tokenizer.json", "{}");
    const Loaded model = load_folder(golden_folder("qwen2"));
    export_model(*decoder_spec(model.config), model.weights,
                 {.output = folder_ / "out" / "", .files = {folder_ / "tokenizer.json"}});
    EXPECT_EQ(read_text(folder_ / "out" / "tokenizer.json"), "{}");
}

TEST_F(ExportTest, LlamaKeysAreThoseOfLlamaCpp) {
    const GgufFile file(gguf_of("llama"));
    const auto expect = [&](const std::string& key, const GgufValue& value) {
        ASSERT_NE(file.find(key), nullptr) << key;
        EXPECT_EQ(*file.find(key), value) << key;
    };
    expect("general.architecture", std::string("llama"));
    expect("general.file_type", uint32_t{0});
    expect("general.name", std::string("model"));
    expect("llama.vocab_size", uint32_t{101});
    expect("llama.context_length", uint32_t{128});
    expect("llama.embedding_length", uint32_t{32});
    expect("llama.block_count", uint32_t{2});
    expect("llama.feed_forward_length", uint32_t{72});
    expect("llama.attention.head_count", uint32_t{4});
    expect("llama.attention.head_count_kv", uint32_t{2});
    expect("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    expect("llama.rope.dimension_count", uint32_t{8});
    expect("llama.rope.freq_base", 10000.0F);
    expect("tokenizer.ggml.model", std::string("none"));
    EXPECT_EQ(file.find("llama.attention.key_length"), nullptr);
    for (const char* name :
         {"token_embd.weight", "output_norm.weight", "output.weight", "blk.1.attn_norm.weight", "blk.1.attn_q.weight",
          "blk.1.attn_k.weight", "blk.1.attn_v.weight", "blk.1.attn_output.weight", "blk.1.ffn_norm.weight",
          "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.1.ffn_down.weight"}) {
        EXPECT_NE(file.find_tensor(name), nullptr) << name;
    }
    EXPECT_EQ(file.tensors().size(), 3U + 2 * 9);
}

TEST_F(ExportTest, OtherFamiliesHaveTheirOwnKeysAndNames) {
    const GgufFile gpt2(gguf_of("gpt2"));
    EXPECT_EQ(*gpt2.find("general.architecture"), GgufValue(std::string("gpt2")));
    EXPECT_EQ(*gpt2.find("gpt2.attention.layer_norm_epsilon"), GgufValue(1e-5F));
    EXPECT_EQ(*gpt2.find("gpt2.feed_forward_length"), GgufValue(uint32_t{128}));
    EXPECT_EQ(gpt2.find("gpt2.rope.freq_base"), nullptr);
    EXPECT_NE(gpt2.find_tensor("position_embd.weight"), nullptr);
    EXPECT_NE(gpt2.find_tensor("blk.0.attn_qkv.bias"), nullptr);
    EXPECT_NE(gpt2.find_tensor("output_norm.bias"), nullptr);
    EXPECT_EQ(gpt2.find_tensor("output.weight"), nullptr) << "the head is the embedding";

    const GgufFile qwen3(gguf_of(load_folder(golden_folder("qwen3")), FloatFormat::bf16));
    EXPECT_EQ(*qwen3.find("general.architecture"), GgufValue(std::string("qwen3")));
    EXPECT_EQ(*qwen3.find("general.file_type"), GgufValue(uint32_t{32}));
    EXPECT_EQ(*qwen3.find("qwen3.attention.key_length"), GgufValue(uint32_t{16}));
    EXPECT_EQ(*qwen3.find("qwen3.attention.value_length"), GgufValue(uint32_t{16}));
    EXPECT_EQ(qwen3.find_tensor("blk.0.attn_q_norm.weight")->type, "F32");
    EXPECT_EQ(qwen3.find_tensor("blk.0.attn_q.weight")->type, "BF16");

    const GgufFile qwen2(gguf_of(load_folder(golden_folder("qwen2")), FloatFormat::fp16));
    EXPECT_EQ(*qwen2.find("general.file_type"), GgufValue(uint32_t{1}));
    EXPECT_EQ(qwen2.find_tensor("blk.0.attn_q.bias")->type, "F32");
    EXPECT_EQ(qwen2.find_tensor("blk.0.attn_q.weight")->type, "F16");
}

// Of each head Hugging Face has the first halves of all pairs, then the second; llama.cpp's llama has pair after pair.
TEST_F(ExportTest, OnlyLlamasQueriesAndKeysAreInterleaved) {
    const auto first_column = [&](const std::string& golden, const std::string& tensor, const std::string& parameter) {
        const Loaded model = load_folder(golden_folder(golden));
        const auto stored = tensor_values(GgufFile(gguf_of(model)), tensor);
        std::vector<std::pair<float, float>> rows;  // of head 1: model's and file's
        for (const Parameter& candidate : decoder_parameters(model.config).list.parameters) {
            if (candidate.name == parameter) {
                for (int64_t row = model.config.head_size; row < 2 * model.config.head_size; ++row) {
                    rows.emplace_back(model.weights[static_cast<size_t>(candidate.offset + row * candidate.columns())],
                                      stored[static_cast<size_t>(row * candidate.columns())]);
                }
            }
        }
        return rows;
    };
    for (const std::string which : {"q", "k"}) {
        const auto rows = first_column("llama", cat("blk.1.attn_", which, ".weight"),
                                       cat("model.layers.1.self_attn.", which, "_proj.weight"));
        ASSERT_EQ(rows.size(), 8U);
        for (size_t pair = 0; pair < 4; ++pair) {
            EXPECT_EQ(rows[2 * pair].second, rows[pair].first);
            EXPECT_EQ(rows[2 * pair + 1].second, rows[pair + 4].first);
        }
    }
    for (const auto& [golden, tensor] : {std::pair{"llama", "v"}, std::pair{"qwen2", "q"}, std::pair{"qwen3", "k"}}) {
        for (const auto& [model, file] : first_column(golden, cat("blk.1.attn_", tensor, ".weight"),
                                                      cat("model.layers.1.self_attn.", tensor, "_proj.weight"))) {
            EXPECT_EQ(model, file);
        }
    }
}

TEST_F(ExportTest, GptMatricesAreTransposed) {
    const Loaded model = load_folder(golden_folder("gpt2"));
    const GgufFile file(gguf_of(model));
    EXPECT_EQ(file.find_tensor("blk.0.attn_qkv.weight")->shape, (std::vector<int64_t>{96, 32}));
    EXPECT_EQ(file.find_tensor("token_embd.weight")->shape, (std::vector<int64_t>{101, 32}));
    const auto stored = tensor_values(file, "blk.0.attn_qkv.weight");
    const DecoderParameters parameters = decoder_parameters(model.config);
    const Parameter& qkv = parameters.list[parameters.blocks[0].qkv.parts[0].weight];
    for (size_t in = 0; in < 32; ++in) {
        for (size_t out = 0; out < 96; ++out) {
            ASSERT_EQ(stored[out * 32 + in], model.weights[static_cast<size_t>(qkv.offset) + in * 96 + out]);
        }
    }
}

// Waves of 6.3, 167, 4443 and 118,000 positions, of which only the first is shorter than 32 / 4: by hand.
TEST_F(ExportTest, Llama3ScalingIsATensorOfFactors) {
    const GgufFile file(gguf_of("llama3-rope"));
    EXPECT_THAT(tensor_values(file, "rope_freqs.weight"), ElementsAre(1.0F, 8.0F, 8.0F, 8.0F));
    EXPECT_EQ(file.find("llama.rope.scaling.type"), nullptr);
}

TEST_F(ExportTest, AMistralIsWrittenAsALlama) {
    Loaded model = load_folder(golden_folder("llama"));
    auto json = nlohmann::json::parse(model.config.source_json);
    json["model_type"] = "mistral";
    json["sliding_window"] = nullptr;
    model.config = parse_model_config(json.dump(), "test", 0);
    const GgufModel again = read_gguf_model(gguf_of(model));
    EXPECT_EQ(again.config.family, "llama");
    EXPECT_EQ(again.weights, model.weights);
}

TEST_F(ExportTest, WhatLlamaCppCannotComputeIsRefused) {
    Loaded model = load_folder(golden_folder("qwen2"));
    model.config.rope.kind = RopeConfig::Kind::llama3;
    EXPECT_THAT([&] { (void)gguf_of(model); }, ThrowsMessage<Error>(HasSubstr("does not read rope_type \"llama3\"")));
    model.config.family = "qwen3";
    model.config.rope.kind = RopeConfig::Kind::plain;
    EXPECT_THAT([&] { (void)gguf_architecture(model.config); }, ThrowsMessage<Error>(HasSubstr("attention_bias")));
}

TEST_F(ExportTest, AVocabularyIsWrittenWithOneTokenForEachRow) {
    const ModelConfig config = load_folder(golden_folder("llama")).config;
    GgufTokenizer tokenizer{.model = "gpt2",
                            .pre = "gpt-2",
                            .tokens = {"a", "b", "ab", "<end>"},
                            .types = {1, 1, 1, 3},
                            .merges = {"a b"},
                            .end = 3,
                            .add_begin = false};
    const auto value_of = [&](const std::string& key) {
        for (const auto& [name, value] : gguf_metadata(config, FloatFormat::fp32, "x", tokenizer)) {
            if (name == "tokenizer.ggml." + key) {
                return value;
            }
        }
        return GgufValue(std::string("none"));
    };
    const auto tokens = std::get<std::vector<std::string>>(std::get<GgufArray>(value_of("tokens")));
    ASSERT_EQ(tokens.size(), 101U);
    EXPECT_EQ(tokens[2], "ab");
    EXPECT_EQ(tokens[100], "[PAD100]");
    const auto types = std::get<std::vector<int32_t>>(std::get<GgufArray>(value_of("token_type")));
    ASSERT_EQ(types.size(), 101U);
    EXPECT_EQ(types[3], 3);
    EXPECT_EQ(types[4], 5);
    EXPECT_EQ(value_of("model"), GgufValue(std::string("gpt2")));
    EXPECT_EQ(value_of("pre"), GgufValue(std::string("gpt-2")));
    EXPECT_EQ(value_of("merges"), GgufValue(GgufArray(std::vector<std::string>{"a b"})));
    EXPECT_EQ(value_of("eos_token_id"), GgufValue(uint32_t{3}));
    EXPECT_EQ(value_of("bos_token_id"), GgufValue(std::string("none")));
    EXPECT_EQ(value_of("add_bos_token"), GgufValue(false));
    EXPECT_EQ(value_of("scores"), GgufValue(std::string("none")));

    tokenizer.model = "llama";
    tokenizer.scores = {-1, -2, -3, -4};
    EXPECT_EQ(std::get<std::vector<float>>(std::get<GgufArray>(value_of("scores"))).size(), 101U);
    tokenizer.scores = {-1};
    EXPECT_THAT([&] { (void)value_of("model"); },
                ThrowsMessage<Error>(HasSubstr("1 scores; each token needs its own")));
    tokenizer.tokens.assign(102, "x");
    EXPECT_THAT([&] { (void)value_of("model"); },
                ThrowsMessage<Error>(HasSubstr("the tokenizer has 102 tokens, but the model only 101")));
    tokenizer.model = "bert";
    EXPECT_THAT([&] { (void)value_of("model"); }, ThrowsMessage<Error>(HasSubstr("\"bert\" was given")));
}

TEST_F(ExportTest, NothingIsWrittenOverAndNothingHalfIsLeft) {
    Loaded model = load_folder(golden_folder("llama"));
    const auto request = [&](Kind kind) {
        return ExportRequest{.kind = kind, .format = FloatFormat::fp16, .output = folder_ / "out"};
    };
    fs::create_directories(folder_ / "out");
    for (const Kind kind : {Kind::hf, Kind::gguf}) {
        EXPECT_THAT([&] { (void)export_model(*decoder_spec(model.config), model.weights, request(kind)); },
                    ThrowsMessage<Error>(HasSubstr("exists already")));
    }
    fs::remove_all(folder_ / "out");
    model.weights[5] = 1e5F;
    EXPECT_THAT([&] { (void)export_model(*decoder_spec(model.config), model.weights, request(Kind::hf)); },
                ThrowsMessage<Error>(HasSubstr("tensor model.embed_tokens.weight holds 100000 at element 5")));
    EXPECT_THAT([&] { (void)export_model(*decoder_spec(model.config), model.weights, request(Kind::gguf)); },
                ThrowsMessage<Error>(HasSubstr("tensor token_embd.weight holds 100000 at element 5")));
    EXPECT_TRUE(fs::is_empty(folder_.path()));
    model.weights.pop_back();
    EXPECT_THAT([&] { (void)export_model(*decoder_spec(model.config), model.weights, request(Kind::hf)); },
                ThrowsMessage<Error>(HasSubstr("were given to be exported")));
    write_text(folder_ / "file", "");
    model.weights.push_back(0);
    EXPECT_THAT(
        [&] { (void)export_model(*decoder_spec(model.config), model.weights, {.output = folder_ / "file" / "below"}); },
        ThrowsMessage<Error>(HasSubstr("Not a directory")));
}

}  // namespace
}  // namespace accrue::testing
