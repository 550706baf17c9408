#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/model/decoder/config.h"
#include "accrue/model/parameters.h"

namespace accrue {
namespace {

using nlohmann::json;

const Words kBytes{.count = 257, .end_of_document = 256};

ModelShape small(const std::string& family) {
    return {.family = family, .layers = 2, .width = 64, .heads = 4};
}

std::string error_of(const std::string& preset, const ModelShape& shape, const Words& words = kBytes) {
    try {
        (void)shaped_config(preset, shape, words);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(ShapeTest, APresetThatNothingChangesIsThePresetToTheLetter) {
    for (const std::string& name : preset_names()) {
        EXPECT_EQ(shaped_config(name, {}, kBytes), preset_config(name));
    }
}

TEST(ShapeTest, AVocabularyGrowsToTheTokenizersAndNothingElseChanges) {
    for (const std::string& name : preset_names()) {
        json expected = json::parse(preset_config(name).source_json);
        expected["vocab_size"] = 60032;  // a multiple of 64
        EXPECT_EQ(json::parse(shaped_config(name, {}, {.count = 60000}).source_json), expected);
    }
}

TEST(ShapeTest, APresetKeepsWhatAShapeDoesNotName) {
    ModelConfig expected = preset_config("tiny");
    expected.layers = 8;
    ModelConfig changed = shaped_config("tiny", {.layers = 8}, kBytes);
    expected.source_json = changed.source_json;
    EXPECT_EQ(changed, expected);
    // Every number that a family's file names is the preset's, so writing them again changes none.
    expected = preset_config("llama-1.5b");
    changed = shaped_config("llama-1.5b", {.layers = expected.layers}, kBytes);
    EXPECT_EQ(json::parse(changed.source_json), json::parse(expected.source_json));
    expected = preset_config("gpt2-124m");
    changed = shaped_config("gpt2-124m", {.layers = expected.layers}, kBytes);
    EXPECT_EQ(json::parse(changed.source_json), json::parse(expected.source_json));
}

TEST(ShapeTest, SizesThatFollowOthersFollowThem) {
    const ModelConfig wider = shaped_config("llama-1.5b", {.width = 1024, .heads = 32}, kBytes);
    EXPECT_EQ(wider.head_size, 32);
    EXPECT_EQ(wider.key_heads, 32);
    EXPECT_EQ(wider.ffn, 2816);
    EXPECT_EQ(shaped_config("llama-1.5b", {.heads = 32, .key_heads = 4}, kBytes).key_heads, 4);
    EXPECT_EQ(shaped_config("llama-1.5b", {.width = 1024, .ffn = 100}, kBytes).ffn, 100);
    // Of each preset, from its width alone.
    for (const char* name : {"tiny", "llama-350m", "llama-1.5b", "gpt2-124m"}) {
        const ModelConfig preset = preset_config(name);
        EXPECT_EQ(shaped_config(name, {.width = preset.width}, kBytes).ffn, preset.ffn) << name;
    }
}

TEST(ShapeTest, AFamilyStandsAloneWithWhatIsUsualForIt) {
    const ModelConfig llama = shaped_config("", small("llama"), kBytes);
    EXPECT_EQ(llama.layers, 2);
    EXPECT_EQ(llama.width, 64);
    EXPECT_EQ(llama.heads, 4);
    EXPECT_EQ(llama.key_heads, 4);
    EXPECT_EQ(llama.head_size, 16);
    EXPECT_EQ(llama.ffn, 192);
    EXPECT_EQ(llama.positions, 1024);
    EXPECT_EQ(llama.vocabulary, 320);
    EXPECT_FALSE(llama.tied);
    const ModelConfig gpt2 = shaped_config("", small("gpt2"), kBytes);
    EXPECT_EQ(gpt2.ffn, 256);
    EXPECT_TRUE(gpt2.tied && gpt2.learned_positions && gpt2.qkv_bias);
    EXPECT_TRUE(shaped_config("", small("qwen2"), kBytes).qkv_bias);
    EXPECT_FALSE(shaped_config("", small("qwen2"), kBytes).attention_output_bias);
    EXPECT_TRUE(shaped_config("", small("qwen3"), kBytes).query_key_norm);
    // Longer sequences than a sliding window would be refused.
    EXPECT_EQ(parse_model_config(shaped_config("", small("mistral"), kBytes).source_json, "config.json", 1024).family,
              "mistral");
}

TEST(ShapeTest, EverySizeIsWritten) {
    for (const std::string& family : decoder_names()) {
        ModelShape shape = small(family);
        shape.key_heads = family == "gpt2" ? 4 : 2;
        shape.ffn = 100;
        shape.positions = 33;
        shape.vocabulary = 300;
        shape.tied = family != "gpt2";
        shape.dropout = 0.25;
        const ModelConfig model = shaped_config("", shape, kBytes);
        EXPECT_EQ(model.family, family);
        EXPECT_EQ(model.key_heads, shape.key_heads) << family;
        EXPECT_EQ(model.ffn, 100) << family;
        EXPECT_EQ(model.positions, 33) << family;
        EXPECT_EQ(model.vocabulary, 300) << family;
        EXPECT_EQ(model.tied, *shape.tied) << family;
        EXPECT_EQ(model.attention_dropout, 0.25F) << family;
        EXPECT_EQ(model.residual_dropout, family == "gpt2" ? 0.25F : 0) << family;
        EXPECT_EQ(model.embedding_dropout, family == "gpt2" ? 0.25F : 0) << family;
        // What is written is what is read back.
        EXPECT_EQ(parse_model_config(model.source_json, "config.json", 0), model) << family;
        EXPECT_GT(decoder_parameters(model).list.elements(), 0);
    }
}

// By these transformers finds the class of a model and its names of tensors.
TEST(ShapeTest, WhatIsWrittenNamesTheFamilysClass) {
    const auto written = [](const std::string& family) {
        return json::parse(shaped_config("", small(family), kBytes).source_json);
    };
    for (const auto& [family, name] : {std::pair{"gpt2", "GPT2LMHeadModel"},
                                       {"llama", "LlamaForCausalLM"},
                                       {"mistral", "MistralForCausalLM"},
                                       {"qwen2", "Qwen2ForCausalLM"},
                                       {"qwen3", "Qwen3ForCausalLM"}}) {
        const json config = written(family);
        EXPECT_EQ(config["architectures"], json::array({name}));
        EXPECT_EQ(config["model_type"], family);
        EXPECT_EQ(config["eos_token_id"], 256) << "the tokenizer's end of a document";
        EXPECT_TRUE(config["bos_token_id"].is_null());
    }
    EXPECT_TRUE(written("mistral").contains("sliding_window") && written("mistral")["sliding_window"].is_null());
    EXPECT_EQ(written("qwen3")["head_dim"], 16) << "absent, transformers would take 128";
    const json fewer = json::parse(shaped_config("gpt2-124m", {.vocabulary = 300}, kBytes).source_json);
    EXPECT_TRUE(fewer["eos_token_id"].is_null()) << "50256 is beyond the vocabulary";
}

TEST(ShapeTest, ShapesThatCannotBeAreRefusedByTheirKeys) {
    EXPECT_EQ(error_of("", {.family = "llama", .width = 64, .heads = 4}),
              "model.family = \"llama\" stands for no preset: it needs model.layers, model.width and model.heads, but "
              "model.layers is 0. Give it.");
    EXPECT_EQ(error_of("tiny", {.heads = 3}),
              "model.width is 256 (the preset's) and model.heads is 3, but the width must be a multiple of the heads. "
              "Change one of them.");
    EXPECT_EQ(
        error_of("", {.family = "llama", .layers = 1, .width = 15, .heads = 3}),
        "model.width is 15 and model.heads is 3, which makes heads of 5, but the rotary positions of llama need an "
        "even size. Change one of them.");
    EXPECT_EQ(error_of("", {.family = "gpt2", .layers = 1, .width = 15, .heads = 3}), "") << "learned positions";
    EXPECT_EQ(error_of("tiny", {.key_heads = 3}),
              "model.heads is 4 (the preset's) and model.key_heads is 3, but the heads must be a multiple of the key "
              "heads. Change one of them.");
    EXPECT_EQ(error_of("gpt2-124m", {.key_heads = 4}),
              "model.key_heads is 4 and model.heads is 12 (the preset's), but gpt2 has keys and values for every head. "
              "Leave model.key_heads at 0.");
    EXPECT_EQ(error_of("tiny", {.vocabulary = 100}),
              "model.vocabulary is 100, but the tokenizer has 257 words. Set it to at least that, or to 0 to take the "
              "tokenizer's.");
    EXPECT_EQ(error_of("tiny", {.vocabulary = 100}, {}), "") << "token ids, whose largest is judged with the data";
    EXPECT_EQ(
        error_of("", small("llama"), {}),
        "model.vocabulary is 0, and the data holds token ids, without a tokenizer whose words could be counted. Set "
        "model.vocabulary to one more than the largest id, or name a data.tokenizer.");
    EXPECT_EQ(error_of("tiny", {.layers = 20000}),
              "the shape in [model]: the model has 20000 layers, and more than 10000 are not supported.");
    EXPECT_EQ(error_of("tiny", {.width = 1'000'000'000}).find("the shape in [model]: "), 0U);
    EXPECT_EQ(error_of("", small("mamba")), "model.family is \"mamba\", which is no family that a shape can have.");
}

}  // namespace
}  // namespace accrue
