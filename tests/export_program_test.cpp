// `accrue inspect` and `accrue export` as a user runs them.

#include "tests/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/model/export.h"
#include "accrue/model/families.h"
#include "accrue/tensor/gguf.h"
#include "accrue/tensor/safetensors.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

class ExportProgramTest : public ::testing::Test {
protected:
    // Runs the program and looks for words in what it says.
    std::string expect_says(const std::vector<std::string>& arguments, const std::vector<std::string>& words,
                            int exit_code = 0) const {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, exit_code) << result.output;
        for (const std::string& word : words) {
            EXPECT_NE(result.output.find(word), std::string::npos) << "no \"" << word << "\" in: " << result.output;
        }
        return result.output;
    }
    void train(const std::vector<std::string>& settings) const {
        std::vector<std::string> arguments = {"train"};
        for (const std::string& setting : settings) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        const ProgramResult result = run_program(arguments, folder_.path());
        ASSERT_EQ(result.exit_code, 0) << result.output;
    }
    // Evaluates on one line: the built-in stories for that would take most of the time.
    void train_small() const {
        write_text(folder_ / "validation.txt", "Once upon a time there was a fox. It was happy to be a fox.\n");
        train({"schedule.steps=2", "window.samples=2", "data.sequence_length=32", "run.folder=run",
               "window.grain_samples=32", R"(data.validation=["validation.txt"])"});
    }

    TemporaryFolder folder_;
};

using InspectTest = ExportProgramTest;

TEST_F(InspectTest, AModelFolderShowsItsSizesAndTensors) {
    const std::string text = expect_says({"inspect", golden("llama").string()},
                                         {"a model folder", "family:       llama", "layers:       2",
                                          "heads:        4 of 8, 2 for keys", "positions:    128, rotary, theta 10000",
                                          "model.layers.1.mlp.down_proj.weight", "[32, 72]", "F32", "21 tensors, "});
    const auto parameters = nlohmann::json::parse(read_text(golden("llama") / "config.json"));
    EXPECT_EQ(parameters.at("vocab_size"), 101);
    // embedding and head 2 x 101 x 32; per block q, o 2 x 32 x 32, k, v 2 x 16 x 32, mlp 3 x 72 x 32, norms 2 x 32.
    const int expected = 2 * 101 * 32 + 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 72 * 32 + 2 * 32) + 32;
    EXPECT_NE(text.find(cat("parameters:   ", expected, "\n")), std::string::npos) << text;
    EXPECT_NE(text.find(cat("21 tensors, ", expected, " numbers (", expected, " F32)")), std::string::npos) << text;
}

TEST_F(InspectTest, AModelThatCannotBeTrainedIsShownWithTheReason) {
    copy_model("llama", folder_ / "model", {{"model_type", "\"bert\""}});
    expect_says({"inspect", "model"}, {"model_type is \"bert\"", "21 tensors"});
}

TEST_F(InspectTest, ARunAndItsCheckpointsShowWhatTheyHold) {
    train_small();
    expect_says({"inspect", "run"},
                {"run: a run", "tiny", "data:         built-in stories", "window:       2 samples, grains of 32",
                 "numbers:      bf16, sums exact", "2 planned", "done:         2", "tokens:       128", "tokens/s",
                 "validation:   ", "iB at most", "step-2", "run/model: a model"});
    expect_says({"inspect", "run/checkpoints/step-2"},
                {"a checkpoint, whole, checksums right", "step:", "weights.safetensors", "model.embed_tokens.weight"});
    fs::remove_all(folder_ / "run" / "model");
    expect_says({"inspect", "run"}, {"It has no model yet"});
    write_text(folder_ / "run" / "checkpoints" / "step-2" / "state.json", "{}");
    expect_says({"inspect", "run/checkpoints/step-2"}, {"state.json"}, 1);
}

TEST_F(InspectTest, FilesShowWhatTheyHold) {
    expect_says(
        {"inspect", (golden("tokenizer-gpt2") / "tokenizer.json").string()},
        {"a tokenizer", "BPE", "vocabulary:   2000", "merges:       1743", "ByteLevel", "0  \"<|endoftext|>\""});
    expect_says({"inspect", golden("tokenizer-gpt2").string()}, {"tokenizer.json: a tokenizer", "vocabulary:   2000"});
    expect_says({"inspect", (golden("tokenizer-sentencepiece") / "tokenizer.model").string()},
                {"tokenizer.model: a tokenizer", "vocabulary:   700", "end:          2  \"</s>\"", "0  \"<unk>\""});
    expect_says({"inspect", (golden("llama") / "config.json").string()},
                {"a model's configuration", "layers:       2"});
    write_text(folder_ / "ranks.tiktoken", "YQ== 0\nYg== 1\nYWI= 2\n");
    expect_says({"inspect", "ranks.tiktoken"}, {"vocabulary:   4", "end:          3  \"<|endoftext|>\"", "2  \"ab\""});
    expect_says({"inspect", (golden("llama") / "batch.safetensors").string()},
                {"a safetensors file", "input_ids", "I64", "training data", "token ids:"});
    write_text(folder_ / "a.txt", "Once upon a time.\n");
    expect_says({"inspect", "a.txt"}, {"training data", "documents:    1", "text:         18 B",
                                       "longest:      18 bytes", "first:        \"Once upon a time.\\n\""});
    write_text(folder_ / "a.jsonl", "{\"text\": \"one\"}\n{\"prompt\": \"ab\", \"completion\": \"c\"}\nno JSON\n");
    expect_says({"inspect", "a.jsonl"}, {"documents:    2", "longest:      3 bytes", "not counted:  2 of 6 bytes",
                                         "first:        \"one\"", "bad lines:    1"});
    write_text(folder_ / "a.bin", std::string("\1\0\7\0\2\1", 6));
    expect_says({"inspect", "a.bin"},
                {"token ids:    3, from 1 to 258", "longest:      3 ids", "first:        1 7 258"});
}

TEST_F(InspectTest, WhatIsNotKnownIsAnError) {
    expect_says({"inspect", "nothing"}, {"nothing does not exist"}, 1);
    fs::create_directory(folder_ / "empty");
    expect_says({"inspect", "empty"}, {"holds nothing that is known", "run.toml", "manifest.json", "config.json"}, 1);
    write_text(folder_ / "a.png", "x");
    expect_says({"inspect", "a.png"}, {"a.png is nothing that is known", ".safetensors, .gguf", "tokenizer.model"}, 1);
    write_text(folder_ / "a.json", "{}");
    expect_says({"inspect", "a.json"}, {"a.json is no tokenizer.json"}, 1);
    write_text(folder_ / "a.gguf", "GGUFxxxx");
    expect_says({"inspect", "a.gguf"}, {"a.gguf is no GGUF file that can be read", "version"}, 1);
    expect_says({"inspect"}, {"path is required"}, 2);
}

TEST_F(ExportProgramTest, ARunIsExportedBesideItsModel) {
    train_small();
    expect_says({"export", "run", "--to", "gguf"},
                {"written:     run/model-bf16.gguf", "gguf, bf16", "llama, 39 tensors", "vocabulary:  bytes"});
    const GgufFile file(folder_ / "run" / "model-bf16.gguf");
    const auto& tokens = std::get<std::vector<std::string>>(std::get<GgufArray>(*file.find("tokenizer.ggml.tokens")));
    ASSERT_EQ(tokens.size(), 257U);
    EXPECT_EQ(tokens['a'], "a");
    EXPECT_EQ(tokens[' '], "Ġ");
    EXPECT_EQ(*file.find("tokenizer.ggml.eos_token_id"), GgufValue(uint32_t{256}));
    expect_says({"inspect", "run/model-bf16.gguf"}, {"a GGUF file, version 3", "general.architecture", "\"llama\"",
                                                     "257 values", "token_embd.weight", "BF16", "39 tensors"});

    expect_says({"export", "run", "--to", "hf", "--dtype", "fp16"}, {"written:     run/model-fp16", "hf, fp16"});
    EXPECT_EQ(SafetensorsFile(folder_ / "run" / "model-fp16" / "model.safetensors").at("lm_head.weight").dtype, "F16");
    const auto config = nlohmann::json::parse(read_text(folder_ / "run" / "model-fp16" / "config.json"));
    EXPECT_EQ(config.at("torch_dtype"), "float16");
    expect_says({"sample", "run/model-fp16", "1 2 3", "--tokens", "2"}, {});
    expect_says({"export", "run", "--to", "hf", "--dtype", "fp16"}, {"run/model-fp16: it exists already"}, 1);
}

TEST_F(ExportProgramTest, GoingThroughGgufGivesTheSameFile) {
    for (const char* model : {"gpt2", "llama3-rope", "qwen2", "qwen3"}) {
        SCOPED_TRACE(model);
        const std::string there = cat(model, ".gguf");
        const std::string back = cat(model, "-back");
        const std::string direct = cat(model, "-direct");
        expect_says({"export", golden(model).string(), "--to", "gguf", "--dtype", "fp32", "--output", there},
                    {"written:     " + there, "vocabulary:  none: there is no tokenizer.json"});
        expect_says({"export", there, "--to", "hf", "--dtype", "fp32", "--output", back}, {});
        expect_says({"export", golden(model).string() + "/", "--to", "hf", "--dtype", "fp32", "--output", direct},
                    {"copied:      generation_config.json"});
        EXPECT_EQ(sha256_of(folder_ / back / "model.safetensors"), sha256_of(folder_ / direct / "model.safetensors"));
    }
}

TEST_F(ExportProgramTest, ATokenizerGoesAlong) {
    auto json = nlohmann::json::parse(read_text(golden("llama") / "config.json"));
    json["vocab_size"] = 2005;
    const auto model = known_families().parse(json.dump(), "test", 0);
    const std::vector<float> weights(static_cast<size_t>(model->parameters().flat_elements), 0.5F);
    const std::map<std::string, std::string> names = {
        {"tokenizer-gpt2", "gpt-2"}, {"tokenizer-llama3", "llama-bpe"}, {"tokenizer-qwen2", "qwen2"}};
    for (const auto& [tokenizer, name] : names) {
        SCOPED_TRACE(tokenizer);
        const fs::path tokenizer_file = golden(tokenizer) / "tokenizer.json";
        export_model(*model, weights, {.output = folder_ / tokenizer, .files = {tokenizer_file}});
        expect_says({"export", tokenizer, "--to", "gguf"}, {"vocabulary:  " + tokenizer + "/tokenizer.json"});
        const GgufFile gguf(folder_ / (tokenizer + "-bf16.gguf"));
        EXPECT_EQ(*gguf.find("tokenizer.ggml.pre"), GgufValue(name));
        EXPECT_EQ(length_of(std::get<GgufArray>(*gguf.find("tokenizer.ggml.tokens"))), 2005);
        EXPECT_GT(length_of(std::get<GgufArray>(*gguf.find("tokenizer.ggml.merges"))), 1700);
        EXPECT_EQ(gguf.find("tokenizer.ggml.bos_token_id") != nullptr, tokenizer == "tokenizer-llama3");
        expect_says({"export", tokenizer, "--to", "hf"}, {"copied:      tokenizer.json"});
        EXPECT_EQ(sha256_of(folder_ / (tokenizer + "-bf16") / "tokenizer.json"), sha256_of(tokenizer_file));
    }
}

TEST_F(ExportProgramTest, ASentencePieceVocabularyGoesAlong) {
    auto json = nlohmann::json::parse(read_text(golden("llama") / "config.json"));
    json["vocab_size"] = 700;
    const auto model = known_families().parse(json.dump(), "test", 0);
    const std::vector<float> weights(static_cast<size_t>(model->parameters().flat_elements), 0.5F);
    for (const std::string name : {"tokenizer.json", "tokenizer.model"}) {
        SCOPED_TRACE(name);
        export_model(*model, weights, {.output = folder_ / name, .files = {golden("tokenizer-sentencepiece") / name}});
        expect_says({"export", name, "--to", "gguf", "--output", name + ".gguf"},
                    {"vocabulary:  " + name + "/" + name});
        const GgufFile gguf(folder_ / (name + ".gguf"));
        EXPECT_EQ(*gguf.find("tokenizer.ggml.model"), GgufValue(std::string("llama")));
        EXPECT_EQ(length_of(std::get<GgufArray>(*gguf.find("tokenizer.ggml.scores"))), 700);
        EXPECT_EQ(*gguf.find("tokenizer.ggml.add_space_prefix"), GgufValue(true));
        EXPECT_EQ(gguf.find("tokenizer.ggml.merges"), nullptr);
    }
}

TEST_F(ExportProgramTest, ATokenizerThatLlamaCppCannotHoldIsSaidOrRefused) {
    copy_model("llama", folder_ / "model", {});
    const fs::path tokenizer = folder_ / "model" / "tokenizer.json";
    fs::copy_file(golden("tokenizer-gpt2") / "tokenizer.json", tokenizer);
    expect_says({"export", "model", "--to", "gguf"}, {"the tokenizer has 2000 tokens, but the model only 101"}, 1);
    auto json = nlohmann::json::parse(read_text(tokenizer));
    json["pre_tokenizer"]["add_prefix_space"] = true;
    write_text(tokenizer, json.dump());
    expect_says({"export", "model", "--to", "gguf", "--output", "a.gguf"},
                {"vocabulary:  none: model/tokenizer.json cuts text in a way that has no name in llama.cpp"});
    fs::copy_file(golden("tokenizer-llama2") / "tokenizer.json", tokenizer, fs::copy_options::overwrite_existing);
    expect_says({"export", "model", "--to", "gguf", "--output", "b.gguf"},
                {"vocabulary:  none: model/tokenizer.json merges tokens in an order that scores of tokens"});
    fs::remove(tokenizer);
    fs::copy_file(golden("tokenizer-sentencepiece") / "tokenizer.model", folder_ / "model" / "tokenizer.model");
    expect_says({"export", "model", "--to", "gguf", "--output", "d.gguf"}, {"the tokenizer has 700 tokens"}, 1);
    write_text(tokenizer, "{}");
    expect_says({"export", "model", "--to", "gguf", "--output", "c.gguf"},
                {"model/tokenizer.json is not a tokenizer.json: there is no tokenizer in it"}, 1);
}

TEST_F(ExportProgramTest, WrongUseAndBadSourcesAreErrors) {
    expect_says({"export", golden("llama").string()}, {"--to is required"}, 2);
    expect_says({"export", golden("llama").string(), "--to", "onnx"}, {"--to"}, 2);
    expect_says({"export", golden("llama").string(), "--to", "hf", "--dtype", "int8"}, {"--dtype"}, 2);
    expect_says({"export", "nowhere", "--to", "hf"}, {"nowhere is not a folder"}, 1);
    write_text(folder_ / "x.gguf", "no");
    expect_says({"export", "x.gguf", "--to", "hf"}, {"x.gguf is no GGUF file"}, 1);
    copy_model("llama", folder_ / "large", {}, [](const std::string& tensor, std::vector<float>& values) {
        if (tensor == "lm_head.weight") {
            values[7] = 1e6F;
        }
    });
    expect_says({"export", "large", "--to", "hf", "--dtype", "fp16"},
                {"tensor lm_head.weight holds 1e+06 at element 7", "too large for fp16"}, 1);
    EXPECT_FALSE(fs::exists(folder_ / "large-fp16"));
}

}  // namespace
}  // namespace accrue::testing
