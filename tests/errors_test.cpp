// Bad input: each mistake ends with exit code 1 and a message that names the thing.

#include <cmath>
#include <cstring>
#include <fstream>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/data/cache/token_format.h"
#include "accrue/tensor/safetensors.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

class ErrorsTest : public ::testing::Test {
protected:
    ErrorsTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        copy_model("llama", folder_ / "model", {});
    }

    [[nodiscard]] std::vector<std::string> train_arguments(const std::vector<std::string>& more = {}) const {
        std::vector<std::string> arguments = {"train"};
        for (const std::string& setting :
             {"model.from=" + (folder_ / "model").string(), "data.train=" + (folder_ / "data.safetensors").string(),
              std::string("schedule.steps=4"), std::string("window.samples=4"),
              "run.folder=" + (folder_ / "run").string()}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        for (const std::string& setting : more) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return arguments;
    }

    void expect_error(const std::vector<std::string>& arguments, const std::vector<std::string>& words) const {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, 1) << result.output;
        for (const std::string& word : words) {
            EXPECT_NE(result.output.find(word), std::string::npos) << "no \"" << word << "\" in: " << result.output;
        }
    }

    // The header of a token cache as a program of another version would have written it.
    static void make_older(const fs::path& path) {
        std::string bytes = read_text(path);
        TokenHeader header;
        ASSERT_EQ(bytes.size(), sizeof header);
        std::memcpy(&header, bytes.data(), sizeof header);
        header.version = 0;
        header.checksum = checksum_of(header);
        std::memcpy(bytes.data(), &header, sizeof header);
        write_text(path, bytes);
    }

    TemporaryFolder folder_;
};

TEST_F(ErrorsTest, UnknownKeyAndWrongType) {
    expect_error(train_arguments({"window.sampels=3"}), {"window.sampels", "window.samples"});
    expect_error(train_arguments({"window.samples=\"many\""}), {"window.samples", "integer"});
    write_text(folder_ / "job.toml", "[window]\nsamples = 4\ngrain = 2\n");
    expect_error({"train", "job.toml"}, {"job.toml", "3", "grain", "grain_samples"});
}

TEST_F(ErrorsTest, MissingAndTruncatedWeights) {
    fs::rename(folder_ / "model" / "model.safetensors", folder_ / "model" / "model-00001-of-00001.safetensors");
    expect_error(train_arguments(), {"model-00001-of-00001.safetensors", "model.safetensors.index.json"});
    const std::string whole = read_text(golden("llama") / "model.safetensors");
    write_text(folder_ / "model" / "model.safetensors", whole.substr(0, whole.size() - 100));
    expect_error(train_arguments(), {"model.safetensors"});
    write_text(folder_ / "model" / "model.safetensors", whole.substr(0, 5));
    expect_error(train_arguments(), {"model.safetensors"});
}

TEST_F(ErrorsTest, WrongShapeWrongDtypeMissingAndUnknownTensors) {
    const auto rewrite = [&](const std::function<void(std::vector<TensorToStore>&)>& edit) {
        const SafetensorsFile source(golden("llama") / "model.safetensors");
        std::map<std::string, std::vector<std::byte>> bytes;
        std::vector<TensorToStore> tensors;
        for (const auto& [name, tensor] : source.tensors()) {
            bytes[name].resize(static_cast<size_t>(tensor.bytes));
            source.read_bytes(tensor, bytes[name]);
            tensors.push_back({name, tensor.dtype, tensor.shape, bytes[name]});
        }
        edit(tensors);
        write_safetensors(folder_ / "model" / "model.safetensors", tensors);
    };
    rewrite([](auto& tensors) { std::swap(tensors[0].shape[0], tensors[0].shape[1]); });
    expect_error(train_arguments(), {"lm_head.weight", "[32, 101]", "[101, 32]"});
    rewrite([](auto& tensors) { tensors[0].dtype = "I32"; });
    expect_error(train_arguments(), {"lm_head.weight", "I32"});
    rewrite([](auto& tensors) { tensors.pop_back(); });
    expect_error(train_arguments(), {"model.norm.weight", "missing"});
    rewrite([](auto& tensors) { tensors.back().name = "model.extra"; });
    expect_error(train_arguments(), {"model.norm.weight"});
    rewrite([](auto& tensors) {
        tensors.push_back(tensors[0]);
        tensors.back().name = "model.layers.0.self_attn.q_proj.bias";
    });
    expect_error(train_arguments(), {"q_proj.bias", "unknown"});
}

TEST_F(ErrorsTest, NanInTheWeights) {
    copy_model("llama", folder_ / "model", {}, [](const std::string& name, std::vector<float>& values) {
        if (name == "model.norm.weight") {
            values[3] = NAN;
        }
    });
    expect_error(train_arguments(), {"model.norm.weight", "nan", "element 3"});
}

TEST_F(ErrorsTest, TokensAndLengthsThatTheModelDoesNotHave) {
    write_ragged_data(folder_ / "data.safetensors", {.vocabulary = 200});
    expect_error(train_arguments(), {"data.safetensors", "vocabulary", "101"});
    write_ragged_data(folder_ / "data.safetensors", {.tokens = 300});
    expect_error(train_arguments(), {"299", "positions"});
    expect_error({"train", "--set", "data.sequence_length=5000"}, {"5000", "1024", "data.sequence_length"});
}

TEST_F(ErrorsTest, MicroBatchesThatNoMachineHolds) {
    expect_error({"plan", "--set", "window.grain_samples=1000000000"},
                 {"1 grain(s) of 1000000000 sample(s)", "too large", "window.micro_batch_grains"});
    expect_error({"train", "--set", "window.grain_samples=4", "--set", "window.micro_batch_grains=1000000"},
                 {"1000000 grain(s) of 4 sample(s)"});
}

TEST_F(ErrorsTest, EmptyAndMissingData) {
    write_text(folder_ / "empty.txt", "");
    expect_error({"train", "--set", "data.train=empty.txt"}, {"empty.txt", "empty"});
    expect_error({"train", "--set", "data.train=nowhere.txt"}, {"nowhere.txt"});
    const std::vector<int64_t> ids(8, 1);
    const std::vector<int64_t> masked(8, -100);
    write_safetensors(folder_ / "masked.safetensors", {{"input_ids", "I64", {2, 4}, std::as_bytes(std::span(ids))},
                                                       {"labels", "I64", {2, 4}, std::as_bytes(std::span(masked))}});
    expect_error(train_arguments({"data.train=" + (folder_ / "masked.safetensors").string()}),
                 {"masked.safetensors", "no counted target"});
}

TEST_F(ErrorsTest, TextThatIsNotUtf8) {
    write_text(folder_ / "latin.txt", "caf\xE9 au lait");
    expect_error({"train", "--set", "data.train=latin.txt"}, {"latin.txt", "not UTF-8 at byte 3", "iconv"});
    write_text(folder_ / "latin.jsonl", "{\"text\": \"good\"}\n{\"text\": \"caf\xE9\"}\n");
    expect_error({"train", "--set", "data.train=latin.jsonl"}, {"latin.jsonl, line 2", "not UTF-8", "iconv"});
}

TEST_F(ErrorsTest, AFolderWithoutData) {
    fs::create_directory(folder_ / "nothing");
    expect_error({"train", "--set", "data.train=nothing"}, {"nothing", "no file with a known ending", ".jsonl"});
    write_text(folder_ / "nothing" / "notes.pdf", "text");
    expect_error({"train", "--set", "data.train=nothing"}, {"nothing", "no file with a known ending", ".jsonl"});
}

TEST_F(ErrorsTest, LinesThatAreNoDocuments) {
    const auto expect_second_line = [&](const std::string& line, const std::vector<std::string>& words) {
        write_text(folder_ / "a.jsonl", "{\"text\": \"good\"}\n" + line + "\n");
        std::vector<std::string> all = {"a.jsonl, line 2:", "data.skip_bad"};
        all.insert(all.end(), words.begin(), words.end());
        expect_error({"train", "--set", "data.train=a.jsonl"}, all);
    };
    expect_second_line(R"({"title": "x"})", {"none of the known fields", "\"text\"", "\"prompt\"", "\"messages\""});
    expect_second_line(R"({"prompt": "x"})", {"no \"completion\""});
    expect_second_line(R"({"messages": [{"role": "user"}]})", {"message 1", "no \"content\""});
    expect_second_line(R"({"text": "cut)", {"not JSON"});
}

TEST_F(ErrorsTest, AVocabularyLargerThanTheEmbedding) {
    const fs::path larger = golden("tokenizer-gpt2") / "tokenizer.json";
    write_text(folder_ / "a.txt", "Hello there.");
    expect_error(train_arguments({"data.train=" + (folder_ / "a.txt").string(), "data.tokenizer=" + larger.string()}),
                 {"a.txt", "vocabulary has only 101", "data.tokenizer"});
    fs::copy_file(larger, folder_ / "model" / "tokenizer.json");
    expect_error({"sample", (folder_ / "model").string(), "Hello there."}, {"prompt", "vocabulary has only 101"});
}

TEST_F(ErrorsTest, IdsBeyondTheVocabulary) {
    const std::string ids("\1\0\2\0\xF4\1", 6);
    write_text(folder_ / "ids.bin", ids);
    expect_error(train_arguments({"data.train=" + (folder_ / "ids.bin").string()}),
                 {"ids.bin", "token 500", "vocabulary has only 101", "0 to 100"});
}

TEST_F(ErrorsTest, SkippedLinesOfTheValidationDataAreToldByEveryCommand) {
    write_text(folder_ / "ab.model", "YQ== 0\nYg== 1\n");
    write_text(folder_ / "whole.jsonl", "{\"text\": \"abba\"}\n{\"text\": \"baab\"}\n");
    write_text(folder_ / "holes.jsonl", "{\"text\": \"abba\"}\nnot json\n{\"text\": 1}\n{}\n");
    auto arguments = train_arguments({"data.train=" + (folder_ / "whole.jsonl").string(), "data.skip_bad=true",
                                      "data.validation=" + (folder_ / "holes.jsonl").string(),
                                      "data.tokenizer=" + (folder_ / "ab.model").string(), "data.sequence_length=4"});
    for (const char* command : {"train", "verify", "plan", "advise"}) {
        arguments.front() = command;
        const ProgramResult result = run_program(arguments);
        EXPECT_EQ(result.exit_code, 0) << result.output;
        EXPECT_NE(result.output.find("\nvalidation tokens: 3 damaged or empty documents were left out"),
                  std::string::npos)
            << command << ": " << result.output;
        EXPECT_EQ(result.output.find("\ntokens: 3 damaged"), std::string::npos) << "none of the training data's";
    }
    const ProgramResult measured = run_program({"eval", (folder_ / "run").string()});
    EXPECT_NE(measured.output.find("validation tokens: 3 damaged"), std::string::npos) << measured.output;
}

// What is wrong with the data but stops nothing is said.
TEST_F(ErrorsTest, SkippedLinesAndAnOldCacheAreTold) {
    write_text(folder_ / "ab.model", "YQ== 0\nYg== 1\n");
    write_text(folder_ / "ab.jsonl", "{\"text\": \"abba\"}\nnot json\n{\"text\": \"baab\"}\n{\"text\": 1}\n");
    const auto arguments = [&](const std::string& run) {
        return train_arguments({"data.train=" + (folder_ / "ab.jsonl").string(), "data.skip_bad=true",
                                "data.tokenizer=" + (folder_ / "ab.model").string(), "data.sequence_length=4",
                                "run.folder=" + (folder_ / run).string()});
    };
    const ProgramResult first = run_program(arguments("run1"));
    EXPECT_EQ(first.exit_code, 0) << first.output;
    EXPECT_NE(first.output.find("tokens: 2 damaged or empty documents were left out"), std::string::npos)
        << first.output;
    EXPECT_EQ(first.output.find("made anew"), std::string::npos) << first.output;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "token-cache")) {
        if (entry.path().filename() == "header") {
            make_older(entry.path());
        }
    }
    const ProgramResult second = run_program(arguments("run2"));
    EXPECT_EQ(second.exit_code, 0) << second.output;
    EXPECT_NE(second.output.find("tokens: the cache was made anew: it is of version 0"), std::string::npos)
        << second.output;
    EXPECT_EQ(sha256_of(folder_ / "run1" / "model" / "model.safetensors").substr(0, 64),
              sha256_of(folder_ / "run2" / "model" / "model.safetensors").substr(0, 64));
}

TEST_F(ErrorsTest, UnsupportedModels) {
    copy_model("llama", folder_ / "model", {{"hidden_act", "\"relu\""}});
    expect_error(train_arguments(), {"hidden_act", "relu", "silu"});
    copy_model("gpt2", folder_ / "model", {{"scale_attn_by_inverse_layer_idx", "true"}});
    expect_error(train_arguments(), {"scale_attn_by_inverse_layer_idx"});
    copy_model("llama", folder_ / "model", {{"model_type", "\"mamba\""}});
    expect_error(train_arguments(), {"mamba", "llama", "qwen3"});
}

TEST_F(ErrorsTest, ACheckpointOfAnotherModelOrDefinitionIsRefused) {
    ASSERT_EQ(run_program(train_arguments()).exit_code, 0);
    const std::string run = (folder_ / "run").string();
    expect_error({"train", "--resume", run, "--set", "window.grain_samples=3"}, {"window.grain_samples", "3"});
    expect_error({"train", "--resume", run, "--set", "model.from=" + golden("qwen2").string()},
                 {"model", "another run"});
    expect_error({"train", "--resume", (folder_ / "nowhere").string()}, {"nowhere", "run.toml"});
}

TEST_F(ErrorsTest, ACorruptedCheckpointIsFound) {
    ASSERT_EQ(run_program(train_arguments()).exit_code, 0);
    const fs::path weights = folder_ / "run" / "checkpoints" / "step-4" / "weights.safetensors";
    std::string bytes = read_text(weights);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_text(weights, bytes);
    expect_error({"train", "--resume", (folder_ / "run").string()}, {"step-4", "damaged", "weights.safetensors"});
}

// A limit on the size of files stands for a full disk: the write fails in the middle.
TEST_F(ErrorsTest, AFullDiskKeepsTheOldCheckpoint) {
    ASSERT_EQ(run_program(train_arguments()).exit_code, 0);
    const std::string run = (folder_ / "run").string();
    const std::string before = sha256_of(folder_ / "run" / "checkpoints" / "step-4" / "weights.safetensors");
    const auto resume = std::vector<std::string>{"train", "--resume", run, "--set", "schedule.steps=6"};
    {
        const ProgramResult result = run_program(resume, ProgramSetup{.largest_file = 20'000});
        EXPECT_EQ(result.exit_code, 1) << result.output;
        EXPECT_NE(result.output.find("checkpoints"), std::string::npos) << result.output;
        EXPECT_NE(result.output.find("the file size limit is reached: ulimit -f"), std::string::npos) << result.output;
        EXPECT_NE(
            result.output.find("The last checkpoint is whole (step 4): go on with accrue train --resume " + run + "\n"),
            std::string::npos)
            << result.output;
    }
    EXPECT_EQ(list_checkpoints(folder_ / "run" / "checkpoints"), std::vector<int64_t>{4});
    EXPECT_EQ(sha256_of(folder_ / "run" / "checkpoints" / "step-4" / "weights.safetensors"), before);
    EXPECT_EQ(run_program(resume, folder_.path()).exit_code, 0) << "with room again it goes on";
}

TEST_F(ErrorsTest, ThreeSkippedWindowsInARowStopTheRun) {
    copy_model("gpt2", folder_ / "model", {}, [](const std::string& name, std::vector<float>& values) {
        if (name == "transformer.wpe.weight") {
            std::fill(values.begin(), values.end(), 3e38F);  // finite, but its mean is not
        }
    });
    expect_error(train_arguments(),
                 {"three windows in a row", "grain 0", "samples",
                  "There is no checkpoint yet: start again with accrue train --resume " + (folder_ / "run").string()});
}

}  // namespace
}  // namespace accrue::testing
