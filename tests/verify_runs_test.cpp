// `accrue verify --runs`: two runs that are the same, and runs that part for one reason or another.

#include <list>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/train/settings_table.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class VerifyRunsTest : public ::testing::Test {
protected:
    VerifyRunsTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        train("a");
    }

    void train(const std::string& run, const std::vector<std::string>& changes = {}) const {
        std::vector<std::string> arguments = {"train"};
        std::vector<std::string> settings = {"model.from=" + golden("llama").string(),
                                             "data.train=" + (folder_ / "data.safetensors").string(),
                                             "window.samples=7",
                                             "window.grain_samples=2",
                                             "compute.dtype=fp32",
                                             "compute.threads=2",
                                             "optimizer.rate=0.01",
                                             "schedule.warmup_steps=0",
                                             "schedule.steps=6",
                                             "run.checkpoint_steps=2",
                                             "run.keep_checkpoints=0",
                                             "run.folder=" + (folder_ / run).string()};
        settings.insert(settings.end(), changes.begin(), changes.end());
        for (const std::string& setting : settings) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        const ProgramResult result = run_program(arguments);
        ASSERT_EQ(result.exit_code, 0) << result.output;
    }
    [[nodiscard]] ProgramResult compare(const std::string& other) const {
        return run_program({"verify", "--runs", (folder_ / "a").string(), (folder_ / other).string()});
    }
    void expect_parting(const std::string& other, const std::vector<std::string>& words) const {
        const ProgramResult result = compare(other);
        EXPECT_EQ(result.exit_code, 1) << result.output;
        for (const std::string& word : words) {
            EXPECT_THAT(result.output, HasSubstr(word));
        }
    }
    void copy_run(const std::string& to) const { fs::copy(folder_ / "a", folder_ / to, fs::copy_options::recursive); }

    TemporaryFolder folder_;
};

TEST_F(VerifyRunsTest, ThreadsAndCutsAreNoDifference) {
    train("b", {"compute.threads=1", "window.micro_batch_grains=3", "run.checkpoint_steps=3"});
    const ProgramResult result = compare("b");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("Settings that must not matter:"), HasSubstr("compute.threads"),
                                     HasSubstr("6 steps compared"), HasSubstr("the same, bit for bit")));
    EXPECT_EQ(result.output.find("depend on:"), std::string::npos) << result.output;
}

TEST_F(VerifyRunsTest, AnotherRateIsFoundInTheUpdate) {
    train("b", {"optimizer.rate=0.02"});
    expect_parting("b", {"Settings that the weights depend on:", "optimizer.rate", "part at step 1",
                         "step 1: the gradients are the same, but not the update: rate 0.01 and 0.02"});
}

TEST_F(VerifyRunsTest, AnotherOrderIsFoundInTheData) {
    train("b", {"run.seed=2"});
    expect_parting("b", {"run.seed", "part at step 1", "step 1: grain 0 reads other tokens: samples "});
}

TEST_F(VerifyRunsTest, AnotherGradientIsFoundWithItsGrainAndTensor) {
    if (cpu::best_instruction_set() <= cpu::InstructionSet::avx2) {
        GTEST_SKIP() << "this processor has no two instruction sets to choose from";
    }
    train("b", {"compute.instruction_set=avx2"});
    // The last digits differ between instruction sets: not what one wants to see in two runs that should be the same.
    expect_parting("b", {"compute.instruction_set", "part at step 1", "computed again from the start:",
                         "step 1: grain 0 (samples ", "has another gradient, first of model.embed_tokens.weight"});
}

TEST_F(VerifyRunsTest, AStepIsComputedAgainWithinTheMemoryOfItsRun) {
    train("b", {"optimizer.rate=0.02"});
    std::string settings = read_text(folder_ / "b" / "run.toml");
    const std::string memory = "memory = \"auto\"";
    settings.replace(settings.find(memory), memory.size(), "memory = \"1MiB\"");
    write_text(folder_ / "b" / "run.toml", settings);
    expect_parting("b", {"part at step 1", "the step cannot be computed again to find the grain: ",
                         "compute.memory is 1.00 MiB, but the smallest plan needs "});
}

TEST_F(VerifyRunsTest, ARecordThatWasDisturbedIsTold) {
    copy_run("b");
    std::istringstream lines(read_text(folder_ / "b" / "metrics.jsonl"));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
        auto json = nlohmann::ordered_json::parse(line);
        if (json.at("step") == 4) {
            json["loss"] = 1.5;
        }
        text += json.dump() + "\n";
    }
    write_text(folder_ / "b" / "metrics.jsonl", text);
    expect_parting("b", {"part at step 4", "computed again here, both runs give the same step 4",
                         (folder_ / "b").string() + " recorded a loss of 1.5 there, but it is"});
}

TEST_F(VerifyRunsTest, ACheckpointThatWasChangedIsNamedWithItsTensor) {
    copy_run("b");
    const fs::path checkpoints = folder_ / "b" / "checkpoints";
    fs::remove_all(checkpoints / "step-6");
    {
        const CheckpointReader reader(checkpoints / "step-4");
        std::list<std::vector<std::byte>> bytes;
        std::vector<CheckpointFile> files;
        for (const char* name : {"weights", "first_moment", "second_moment"}) {
            CheckpointFile& file = files.emplace_back();
            file.name = name;
            for (const auto& [tensor_name, tensor] : reader.file(name).tensors()) {
                bytes.emplace_back(static_cast<size_t>(tensor.bytes));
                reader.file(name).read_bytes(tensor, bytes.back());
                if (file.name == "weights" && tensor_name == "model.norm.weight") {
                    reinterpret_cast<float*>(bytes.back().data())[5] += 0.5F;
                }
                file.tensors.push_back({tensor_name, tensor.dtype, tensor.shape, bytes.back()});
            }
        }
        write_checkpoint(checkpoints, 4, files, reader.state_json());
    }
    ASSERT_EQ(run_program({"train", "--resume", (folder_ / "b").string()}).exit_code, 0);
    expect_parting("b", {"part at step 5",
                         "the weights in checkpoint step-4 differ, first in model.norm.weight: "
                         "element 5 is"});
}

TEST_F(VerifyRunsTest, ARunWhoseDataIsGoneIsComparedByWhatItWrote) {
    fs::copy_file(folder_ / "data.safetensors", folder_ / "other.safetensors");
    train("b", {"data.train=" + (folder_ / "other.safetensors").string(), "optimizer.rate=0.02"});
    fs::remove(folder_ / "other.safetensors");
    expect_parting("b", {"part at step 1", "cannot be computed again to find the grain", "other.safetensors"});
}

}  // namespace
}  // namespace accrue::testing
