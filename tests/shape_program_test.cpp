// Models that begin with a shape alone, and windows that are not what was asked for, as a user meets them.

#include <cmath>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/base/file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

class ShapeProgramTest : public ::testing::Test {
protected:
    ShapeProgramTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        copy_model("llama", folder_ / "shape", {{"initializer_range", "0.5"}});
        fs::remove(folder_ / "shape" / "model.safetensors");
    }

    // "train" and the like with settings; a run of two short steps in the folder's shape unless they say otherwise.
    [[nodiscard]] std::vector<std::string> job(const std::string& command, const std::string& run,
                                               const std::vector<std::string>& more = {}) const {
        std::vector<std::string> settings = {"data.train=data.safetensors",
                                             "data.order=sequential",
                                             "schedule.kind=constant",
                                             "schedule.steps=2",
                                             "schedule.warmup_steps=0",
                                             "window.samples=4",
                                             "window.grain_samples=2",
                                             "compute.threads=1",
                                             "run.folder=" + run};
        settings.insert(settings.end(), more.begin(), more.end());
        std::vector<std::string> arguments = {command};
        for (const std::string& setting : settings) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return arguments;
    }
    std::string expect_says(const std::vector<std::string>& arguments, const std::vector<std::string>& words,
                            int exit_code = 0) const {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, exit_code) << result.output;
        for (const std::string& word : words) {
            EXPECT_NE(result.output.find(word), std::string::npos) << "no \"" << word << "\" in: " << result.output;
        }
        return result.output;
    }
    [[nodiscard]] std::string hash_of(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors").substr(0, 64);
    }

    TemporaryFolder folder_;
};

TEST_F(ShapeProgramTest, AConfigAloneIsTrainedFromFreshWeightsThatTheSeedGives) {
    const std::string said = cat((folder_ / "shape").string(), " has no weights: starting from fresh ones");
    expect_says(job("train", "a", {"model.from=shape"}), {said});
    expect_says(job("train", "b", {"model.from=shape"}), {said});
    expect_says(job("train", "c", {"model.from=shape", "run.seed=2"}), {said});
    EXPECT_EQ(hash_of("a"), hash_of("b"));
    EXPECT_NE(hash_of("a"), hash_of("c"));
    // Trained, it is a model like others: these weights are loaded, unless fresh ones are asked for.
    const std::string trained = "model.from=a/model";
    EXPECT_EQ(expect_says(job("train", "d", {trained}), {}).find("fresh"), std::string::npos);
    EXPECT_NE(hash_of("d"), hash_of("a"));
    expect_says(job("train", "e", {trained, "model.weights=fresh"}),
                {"has weights, but model.weights is \"fresh\": starting from fresh ones"});
    EXPECT_EQ(hash_of("e"), hash_of("a"));
}

TEST_F(ShapeProgramTest, FreshWeightsAreAsWideAsTheConfigSays) {
    Settings settings = small_settings(folder_ / "shape", folder_ / "data.safetensors");
    const TestRun run(settings, 1);
    EXPECT_EQ(run.inputs.settings.model.weights, InitialWeights::fresh);
    const Parameter& embedding = run.engine.model->parameters()[0];
    double squares = 0;
    for (const float weight : run.weights_of(embedding)) {
        squares += std::pow(weight, 2);
    }
    // 3,232 draws: the deviation is found to about 1.2%.
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(embedding.elements())), 0.5, 0.03);
}

TEST_F(ShapeProgramTest, WhatARunBeginsWithIsDecidedOnce) {
    fs::copy(folder_ / "shape", folder_ / "other");
    expect_says(job("train", "whole", {"model.from=shape", "schedule.steps=3"}), {});
    expect_says(job("train", "run", {"model.from=other"}), {});
    EXPECT_NE(read_text(folder_ / "run" / "run.toml").find("weights = \"fresh\""), std::string::npos);
    // Weights that came later, readable or not, are none of a run's business.
    write_text(folder_ / "other" / "model.safetensors", "not weights");
    expect_says({"train", "--resume", "run", "--set", "schedule.steps=3"}, {"continued from step 2"});
    EXPECT_EQ(hash_of("run"), hash_of("whole"));
    fs::remove_all(folder_ / "run" / "checkpoints");
    fs::remove_all(folder_ / "run" / "model");
    fs::remove(folder_ / "other" / "model.safetensors");
    fs::copy(golden("llama") / "model.safetensors", folder_ / "other");
    expect_says({"train", "--resume", "run"}, {"starting from fresh ones"});
    EXPECT_EQ(hash_of("run"), hash_of("whole"));
}

TEST_F(ShapeProgramTest, ARunFromLoadedWeightsGoesOnWithoutThem) {
    fs::copy(golden("llama") / "model.safetensors", folder_ / "shape");
    expect_says(job("train", "whole", {"model.from=shape", "schedule.steps=3"}), {});
    expect_says(job("train", "run", {"model.from=shape"}), {});
    fs::rename(folder_ / "shape" / "model.safetensors", folder_ / "shape" / "pytorch_model.bin");
    expect_says({"train", "--resume", "run", "--set", "schedule.steps=3"}, {"continued from step 2"});
    EXPECT_EQ(hash_of("run"), hash_of("whole"));
}

TEST_F(ShapeProgramTest, WeightsThatWereMeantToBeThereAreNotReplacedByFreshOnes) {
    for (const char* name : {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "consolidated.00.pth",
                             "llama-q8_0.gguf", "model-00001-of-00002.safetensors", "model.safetensors.incomplete"}) {
        write_text(folder_ / "shape" / name, "weights");
        expect_says(job("train", "run", {"model.from=shape"}), {cat("shape has ", name), "model.weights"}, 1);
        EXPECT_FALSE(fs::exists(folder_ / "run")) << "nothing is written before every check has passed";
        fs::remove(folder_ / "shape" / name);
    }
    fs::create_symlink("nowhere", folder_ / "shape" / "model.safetensors");
    expect_says(job("plan", "run", {"model.from=shape"}), {"shape has model.safetensors", "readable"}, 1);
    expect_says(job("train", "run", {"model.from=shape", "model.weights=fresh"}), {"starting from fresh ones"});
    fs::remove(folder_ / "shape" / "model.safetensors");
    write_text(folder_ / "shape" / "model.safetensors.index.json",
               R"({"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}})");
    expect_says(job("train", "next", {"model.from=shape"}),
                {"model.safetensors.index.json names model-00002-of-00002.safetensors, which is not there"}, 1);
    write_text(folder_ / "shape" / "model.safetensors.index.json", R"({"weight_map": {}})");
    expect_says(job("train", "next", {"model.from=shape"}), {"is not an index of shards"}, 1);
}

TEST_F(ShapeProgramTest, AShapeWithoutWeightsCannotSpeak) {
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{"sample", "shape", "1 2"},
                                                      {"eval", "shape", "--data", "data.safetensors"},
                                                      {"export", "shape", "--to", "hf"}}) {
        expect_says(arguments, {"shape has no weights", "accrue train can start from"}, 1);
    }
    EXPECT_FALSE(fs::exists(folder_ / "shape-bf16"));
    expect_says(job("train", "run", {"model.from=shape", "model.weights=loaded"}), {"shape has no weights"}, 1);
    // Words that the shape has no rows for.
    write_text(folder_ / "book.txt", "Once upon a time.");
    expect_says(job("train", "text", {"model.from=shape", "data.train=book.txt", "data.tokenizer=byte"}),
                {"vocabulary has only 101"}, 1);
}

TEST_F(ShapeProgramTest, AShapeInTheSettingsIsTrainedWrittenAndReadBack) {
    const std::vector<std::string> sizes = {"model.family=llama", "model.layers=1", "model.width=32", "model.heads=4",
                                            "model.vocabulary=101"};
    expect_says(job("plan", "run", sizes), {"llama (layers 1, width 32, heads 4, vocabulary 101)"});
    expect_says(job("train", "run", sizes), {});
    expect_says({"inspect", "run"}, {"llama (layers 1", "family:       llama", "layers:       1", "width:        32",
                                     "heads:        4 of 8, 4 for keys", "ffn:          128", "vocabulary:   101"});
    expect_says({"eval", "run", "--data", "data.safetensors"}, {"loss"});
    expect_says(job("train", "more", {"model.from=run/model"}), {});
    // Heads and dropout are in no tensor's shape.
    expect_says({"train", "--resume", "run", "--set", "schedule.steps=3", "--set", "model.heads=2"},
                {"trained with heads = 4, and the configuration now says 2"}, 1);
    expect_says({"train", "--resume", "run", "--set", "model.heads=4", "--set", "model.dropout=0.5"},
                {"attention_dropout = 0.0", "0.5"}, 1);
    expect_says({"train", "--set", "data.sequence_length=2000"}, {"1024 positions", "or model.positions to more"}, 1);
}

TEST_F(ShapeProgramTest, TheWindowsThatAreTakenAreSaidAtTheStart) {
    expect_says(job("train", "a", {"model.from=shape", "window.samples=7"}),
                {"the data has 30 samples: each epoch is 4 windows of 7 and a last one of 2"});
    expect_says(job("plan", "b", {"model.from=shape", "window.samples=64"}),
                {"epoch:      the data has only 30 samples: every window is an epoch of 30, not 64"});
    const std::vector<std::string> dropping = {"model.from=shape", "window.samples=7", "window.last=drop"};
    expect_says(job("train", "c", dropping), {"4 windows of 7, and 2 samples are left out"});
    expect_says({"train", "--resume", "c", "--set", "window.last=short"},
                {"window.last = \"drop\", this run has \"short\""}, 1);
    // The fifth window is the first of the second epoch.
    std::vector<std::string> fifth = job("verify", "d", dropping);
    fifth.insert(fifth.end(), {"--step", "5"});
    expect_says(fifth, {"window of step 5, first weights: 7 samples"});
    for (const char* command : {"train", "plan", "verify", "advise"}) {
        expect_says(job(command, "e", {"model.from=shape", "window.samples=31", "window.last=drop"}),
                    {"window.samples is 31, but the data has only 30 samples"}, 1);
    }
}

}  // namespace
}  // namespace accrue::testing
