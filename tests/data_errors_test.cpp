// What is trained on is what was meant: data that is damaged, cut, of another kind or of no known tokenizer is told.

#include <fstream>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "accrue/base/file.h"
#include "accrue/tensor/safetensors.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class DataErrorsTest : public ::testing::Test {
protected:
    DataErrorsTest() {
        copy_model("llama", folder_ / "model", {});
        write_text(folder_ / "ab.model", "YQ== 0\nYg== 1\n");  // the tokens a and b
        write_text(folder_ / "ab.jsonl", "{\"text\": \"abba\"}\n{\"prompt\": \"aaaaaaaa\", \"completion\": \"b\"}\n");
    }

    // One step, of text with its tokenizer where nothing else is said.
    [[nodiscard]] static std::vector<std::string> train(const std::vector<std::string>& settings,
                                                        const std::string& command = "train") {
        std::vector<std::string> arguments = {command};
        for (const char* setting : {"model.from=model", "data.tokenizer=ab.model", "data.sequence_length=4",
                                    "schedule.steps=1", "window.samples=2", "run.folder=run"}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        for (const std::string& setting : settings) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return arguments;
    }

    [[nodiscard]] std::string error_of(const std::vector<std::string>& arguments) const {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, 1) << result.output;
        return result.output;
    }
    [[nodiscard]] std::string output_of(const std::vector<std::string>& arguments) const {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, 0) << result.output;
        return result.output;
    }

    // GPT-2's older files with a token per printable character, beside a golden model of its family.
    void write_gpt2_folder() const {
        copy_model("gpt2", folder_ / "gpt2", {});
        Json vocabulary = {{"Ġ", 0}, {"Ċ", 1}};
        for (char letter = '!'; letter <= '~'; ++letter) {
            vocabulary[std::string(1, letter)] = vocabulary.size();
        }
        vocabulary["th"] = vocabulary.size();
        vocabulary["<|endoftext|>"] = vocabulary.size();
        write_text(folder_ / "gpt2" / "vocab.json", vocabulary.dump());
        write_text(folder_ / "gpt2" / "merges.txt", "#version: 0.2\nt h\n");
    }

    TemporaryFolder folder_;
};

TEST_F(DataErrorsTest, DamagedTokensAreNeverTrainedOnNorMeasured) {
    const auto arguments = train({"data.train=ab.jsonl", "data.validation=ab.jsonl"});
    (void)output_of(arguments);
    fs::path tokens;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "token-cache")) {
        tokens = entry.path().filename() == "tokens" ? entry.path() : tokens;
    }
    std::fstream(tokens, std::ios::in | std::ios::out | std::ios::binary).seekp(2).put('\0').put('\1');
    const auto damaged = AllOf(HasSubstr("is damaged: its file tokens"),
                               HasSubstr(tokens.parent_path().filename().string()), HasSubstr("Remove that folder"));
    auto again = arguments;
    again.insert(again.end(), {"--set", "run.folder=run2"});
    for (const char* command : {"train", "verify"}) {
        again.front() = command;
        EXPECT_THAT(error_of(again), damaged) << command;
    }
    EXPECT_FALSE(fs::exists(folder_ / "run2" / "model"));
    EXPECT_THAT(error_of({"eval", "run"}), damaged);
    fs::remove_all(tokens.parent_path());
    EXPECT_THAT(output_of({"eval", "run"}), HasSubstr("loss:"));
}

TEST_F(DataErrorsTest, TextForAModelWithoutATokenizerIsNotReadAsBytes) {
    const auto asks = AllOf(HasSubstr("data.tokenizer = \"PATH\""), HasSubstr("data.tokenizer = \"byte\""),
                            HasSubstr((folder_ / "model").string()));
    EXPECT_THAT(error_of(train({"data.train=ab.jsonl", "data.tokenizer=\"\""})), asks);
    EXPECT_THAT(error_of(train({"data.train=[]", "data.tokenizer=\"\""})), AllOf(asks, HasSubstr("built-in stories")));
    EXPECT_FALSE(fs::exists(folder_ / "run"));
    EXPECT_THAT(error_of(train({"data.train=ab.jsonl", "data.tokenizer=byte"})),
                AllOf(HasSubstr("token 256"), HasSubstr("has only 101 words")));
    // Nor where only ids were trained on.
    write_ragged_data(folder_ / "ids.safetensors", {});
    const auto no_tokenizer = AllOf(HasSubstr("ab.jsonl is text"), HasSubstr("data.tokenizer"));
    EXPECT_THAT(error_of(train({"data.train=ids.safetensors", "data.validation=ab.jsonl", "data.tokenizer=\"\""})),
                no_tokenizer);
    EXPECT_THAT(error_of({"eval", "model", "--data", "ab.jsonl"}), no_tokenizer);
}

TEST_F(DataErrorsTest, AModelOfBytesIsTrainedOnBytesWhereTheSettingsSaySo) {
    write_text(folder_ / "text.txt", "once upon a time");
    const std::vector<std::string> bytes = {"data.train=text.txt", "data.tokenizer=byte", "data.sequence_length=8"};
    auto first = train(bytes);
    first.insert(first.end(), {"--set", "model.from=\"\"", "--set", "model.preset=tiny"});
    (void)output_of(first);
    auto second = train(bytes);
    second.insert(second.end(), {"--set", "model.from=run/model", "--set", "run.folder=run2"});
    (void)output_of(second);
    EXPECT_THAT(read_text(folder_ / "run2" / "run.toml"), HasSubstr("tokenizer = \"byte\""));
    EXPECT_THAT(output_of({"eval", "run2", "--data", "text.txt"}), HasSubstr("bits per byte:"));
}

// Padded rows of ids without a tokenizer: nobody knows which id would end them.
TEST_F(DataErrorsTest, IdsWithoutATokenizerGetNoEndOfDocument) {
    write_ragged_data(folder_ / "ids.safetensors", {});
    EXPECT_THAT(output_of(train({"data.train=ids.safetensors", "data.tokenizer=\"\"", "data.layout=padded",
                                 "data.sequence_length=24"})),
                HasSubstr("Done: 1 steps"));
}

TEST_F(DataErrorsTest, WhatAPaddedLayoutCutsIsToldAndNothingLeftIsAnError) {
    EXPECT_THAT(output_of(train({"data.train=ab.jsonl", "data.layout=padded"})),
                AllOf(HasSubstr("training data: 1 of 2 documents are longer than data.sequence_length and are cut: 2 "
                                "counted tokens are left out"),
                      HasSubstr("training data: 1 of 2 samples count nothing")));
    EXPECT_THAT(
        output_of(train({"data.train=ab.jsonl", "data.layout=padded", "data.sequence_length=9", "run.folder=run2"})),
        AllOf(Not(HasSubstr("are cut")), Not(HasSubstr("count nothing"))));
    write_text(folder_ / "long.jsonl", "{\"prompt\": \"aaaaaaaa\", \"completion\": \"b\"}\n");
    EXPECT_THAT(error_of(train({"data.train=long.jsonl", "data.layout=padded", "run.folder=run3"})),
                AllOf(HasSubstr("data.sequence_length is 4"), HasSubstr("longest document has 9 tokens")));
    EXPECT_FALSE(fs::exists(folder_ / "run3"));
}

TEST_F(DataErrorsTest, RowsThatCountNothingAreTold) {
    const std::vector<int64_t> ids = {1, 2, 3, 4};
    const std::vector<int64_t> labels = {1, 2, -100, -100};
    write_safetensors(folder_ / "rows.safetensors", {{"input_ids", "I64", {2, 2}, std::as_bytes(std::span(ids))},
                                                     {"labels", "I64", {2, 2}, std::as_bytes(std::span(labels))}});
    EXPECT_THAT(output_of(train({"data.train=rows.safetensors"})),
                HasSubstr("training data: 1 of 2 samples count nothing"));
    EXPECT_THAT(output_of(train({"data.train=rows.safetensors", "data.layout=padded", "run.folder=run2"})),
                HasSubstr("tokens: 1 damaged or empty documents were left out"));
    EXPECT_THAT(output_of({"inspect", "rows.safetensors"}), HasSubstr("left out:     1 rows that count nothing"));
}

// Before, they were waited for, and no signal ended that.
TEST_F(DataErrorsTest, PipesAndDevicesAreRefusedAtOnce) {
    for (const char* name : {"pipe.txt", "pipe.json", "pipe.toml"}) {
        ASSERT_EQ(mkfifo((folder_ / name).c_str(), 0600), 0);
    }
    fs::create_directory(folder_ / "hollow");
    ASSERT_EQ(mkfifo((folder_ / "hollow" / "config.json").c_str(), 0600), 0);
    fs::create_symlink("/dev/null", folder_ / "null.txt");
    const auto refused = [](const std::string& name) {
        return AllOf(HasSubstr(name), HasSubstr("regular file is needed"));
    };
    EXPECT_THAT(error_of(train({"data.train=pipe.txt"})), refused("pipe.txt"));
    EXPECT_THAT(error_of(train({"data.train=pipe.*xt"})), refused("pipe.txt"));
    EXPECT_THAT(error_of(train({"data.train=null.txt"})), refused("null.txt"));
    EXPECT_THAT(error_of(train({"data.train=ab.jsonl", "data.validation=pipe.txt"})), refused("pipe.txt"));
    EXPECT_THAT(error_of(train({"data.train=ab.jsonl", "data.tokenizer=pipe.json"})), refused("pipe.json"));
    EXPECT_THAT(error_of(train({"data.train=ab.jsonl", "model.from=hollow"})), refused("config.json"));
    EXPECT_THAT(error_of({"train", "pipe.toml"}), AllOf(HasSubstr("pipe.toml"), HasSubstr("is not a file")));
    EXPECT_THAT(error_of({"tokenizer", "train", "pipe.txt"}), refused("pipe.txt"));
    EXPECT_THAT(error_of({"tokenize", "--tokenizer", "pipe.json"}), refused("pipe.json"));
    EXPECT_THAT(error_of({"inspect", "pipe.txt"}), refused("pipe.txt"));
    (void)output_of(train({"data.train=ab.jsonl"}));
    EXPECT_THAT(error_of({"eval", "run", "--data", "pipe.txt"}), refused("pipe.txt"));
    EXPECT_THAT(error_of({"eval", "run", "--data", "/dev/null"}), refused("/dev/null"));
}

TEST_F(DataErrorsTest, AFolderWithVocabularyAndMergesIsTrainedSampledAndExported) {
    write_gpt2_folder();
    write_text(folder_ / "text.txt", "the other thing");
    (void)output_of(train({"model.from=gpt2", "data.tokenizer=\"\"", "data.train=text.txt"}));
    // "the" and "other" have a th each, and "thing": 15 characters in 12 tokens, and the end behind them.
    EXPECT_EQ(Json::parse(read_text(folder_ / "run" / "metrics.jsonl")).at("tokens"), 8) << "two samples of four";
    EXPECT_THAT(output_of({"eval", "run", "--data", "text.txt"}), HasSubstr("tokens:        12"));
    for (const char* name : {"vocab.json", "merges.txt", "tokenizer.json"}) {
        EXPECT_TRUE(fs::exists(folder_ / "run" / "model" / name)) << name;
    }
    (void)output_of({"sample", "gpt2", "the", "--tokens", "2"});
    EXPECT_THAT(output_of({"inspect", "gpt2"}), AllOf(HasSubstr("vocab.json"), HasSubstr("merges:       1")));
    EXPECT_THAT(output_of({"export", "gpt2", "--to", "gguf"}), HasSubstr("vocabulary:  gpt2/vocab.json"));
}

}  // namespace
}  // namespace accrue::testing
