// What `accrue train --resume` and its relatives do where checkpoints are damaged or missing: they say so, use what can be
// used, and never begin anew in silence.

#include <algorithm>

#include "tests/support.h"
#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A run of six steps with a checkpoint after every second.
class ResumeTest : public ::testing::Test {
protected:
    ResumeTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        const ProgramResult result = run_program(train());
        EXPECT_EQ(result.exit_code, 0) << result.output;
        weights_ = sha256_of(run_ / "model" / "model.safetensors");
    }

    [[nodiscard]] std::vector<std::string> train() const {
        std::vector<std::string> arguments = {"train"};
        for (const std::string& setting :
             {"model.from=" + golden("llama").string(), "data.train=" + (folder_ / "data.safetensors").string(),
              std::string("window.samples=4"), std::string("schedule.steps=6"), std::string("schedule.warmup_steps=0"),
              std::string("compute.threads=2"), std::string("run.checkpoint_steps=2"), "run.folder=" + run_.string()}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return arguments;
    }
    [[nodiscard]] ProgramResult resume() const { return run_program({"train", "--resume", run_.string()}); }

    [[nodiscard]] fs::path checkpoint(int64_t step) const { return checkpoint_path(run_ / "checkpoints", step); }
    // One byte in the middle of the weights.
    void damage(int64_t step) const {
        const fs::path file = checkpoint(step) / "weights.safetensors";
        std::string bytes = read_text(file);
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
        write_text(file, bytes);
    }
    void damage_all() const {
        for (const int64_t step : {2, 4, 6}) {
            damage(step);
        }
    }

    TemporaryFolder folder_;
    fs::path run_ = folder_ / "run";
    std::string weights_;
};

TEST_F(ResumeTest, ADamagedNewestCheckpointIsSaidAndTheOneBeforeGoesOnBitForBit) {
    damage(6);
    fs::remove(checkpoint(4) / "first_moment.safetensors");
    const ProgramResult result = resume();
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output,
                HasSubstr(checkpoint(6).string() + " is damaged: file weights.safetensors has checksum"));
    EXPECT_THAT(result.output,
                HasSubstr(checkpoint(4).string() + " is damaged: file first_moment.safetensors is missing"));
    EXPECT_THAT(result.output, AllOf(HasSubstr("Step 2 is used instead"), HasSubstr("continued from step 2")));
    EXPECT_EQ(sha256_of(run_ / "model" / "model.safetensors"), weights_);
    EXPECT_EQ(damage_of(checkpoint(4)), std::nullopt) << "replaced when the run came there again";
    EXPECT_EQ(damage_of(checkpoint(6)), std::nullopt);
    EXPECT_THAT(resume().output, AllOf(HasSubstr("continued from step 6"), Not(HasSubstr("damaged"))));
}

// In fp16, from a scale that is too large: the program says what happens, and a run that goes on says no different.
TEST_F(ResumeTest, ALossScaleGoesOnWhereItWas) {
    copy_model("llama", folder_ / "model", {}, [](const std::string& name, std::vector<float>& values) {
        std::for_each(values.begin(), values.end(), [&](float& value) { value *= name == "lm_head.weight" ? 10 : 1; });
    });
    const auto train_in = [&](const std::string& folder, int64_t steps) {
        std::vector<std::string> arguments = train();
        for (const std::string& setting :
             {"model.from=" + (folder_ / "model").string(), cat("schedule.steps=", steps),
              "run.folder=" + (folder_ / folder).string(), std::string("schedule.kind=constant"),
              std::string("compute.dtype=fp16"), std::string("compute.device=reference"),
              std::string("compute.loss_scale=32768")}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return run_program(arguments);
    };
    const ProgramResult straight = train_in("straight", 8);
    EXPECT_EQ(straight.exit_code, 0) << straight.output;
    EXPECT_THAT(straight.output, AllOf(HasSubstr("step 1 skipped, weights unchanged: grain 0 has a gradient that is "),
                                       HasSubstr("; the loss scale falls from 32768 to 16384")));
    EXPECT_EQ(train_in("halted", 2).exit_code, 0);
    const ProgramResult resumed =
        run_program({"train", "--resume", (folder_ / "halted").string(), "--set", "schedule.steps=8"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_THAT(resumed.output, HasSubstr("; the loss scale falls from 8192 to 4096"));
    EXPECT_EQ(sha256_of(folder_ / "halted" / "model" / "model.safetensors"),
              sha256_of(folder_ / "straight" / "model" / "model.safetensors"));
    EXPECT_THAT(run_program({"inspect", (folder_ / "straight").string()}).output,
                AllOf(HasSubstr(" window(s)\nloss scale:   ")));
}

TEST_F(ResumeTest, WhereAllCheckpointsAreDamagedNothingBeginsAnew) {
    damage_all();
    const std::string metrics = read_text(run_ / "metrics.jsonl");
    const ProgramResult result = resume();
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("no checkpoint in"), HasSubstr("step-2 (file"), HasSubstr("step-4 (file"),
                      HasSubstr("step-6 (file"), HasSubstr("Put back a copy of one of them")));
    EXPECT_EQ(read_text(run_ / "metrics.jsonl"), metrics);
    const ProgramResult anew = run_program(train());
    EXPECT_EQ(anew.exit_code, 1) << anew.output;
    EXPECT_THAT(anew.output, HasSubstr("--resume"));
    EXPECT_EQ(read_text(run_ / "metrics.jsonl"), metrics);
}

TEST_F(ResumeTest, ARunWithoutACheckpointSaysThatItStartsFromTheBeginning) {
    fs::remove_all(run_ / "checkpoints");
    fs::remove_all(run_ / "model");
    const ProgramResult result = resume();
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output,
                HasSubstr(run_.string() + " has no checkpoint yet: the run starts from the beginning\n"));
    EXPECT_EQ(sha256_of(run_ / "model" / "model.safetensors"), weights_);
}

TEST_F(ResumeTest, ReadersOfAnUnfinishedRunSayWhatTheyPassOver) {
    fs::remove_all(run_ / "model");
    damage(6);
    const auto expect_step_4 = [](const ProgramResult& result) {
        EXPECT_EQ(result.exit_code, 0) << result.output;
        EXPECT_THAT(result.output, AllOf(HasSubstr("step-6 is damaged: file weights.safetensors has checksum"),
                                         HasSubstr("Step 4 is used instead")));
    };
    expect_step_4(run_program({"sample", run_.string(), "1 2 3", "--tokens", "2"}));
    expect_step_4(run_program({"eval", run_.string(), "--data", (folder_ / "data.safetensors").string()}));
    expect_step_4(run_program({"verify", run_.string()}));
    fs::remove(checkpoint(6) / "state.json");
    EXPECT_THAT(run_program({"inspect", run_.string()}).output,
                HasSubstr("step-2, step-4, step-6 (damaged: file state.json is missing)"));
    damage_all();
    for (const char* command : {"sample", "verify"}) {
        std::vector<std::string> arguments = {command, run_.string()};
        if (std::string(command) == "sample") {
            arguments.emplace_back("1 2 3");
        }
        const ProgramResult result = run_program(arguments);
        EXPECT_EQ(result.exit_code, 1) << result.output;
        EXPECT_THAT(result.output, HasSubstr("can be used, because each is damaged: step-6 ("));
    }
}

}  // namespace
}  // namespace accrue::testing
