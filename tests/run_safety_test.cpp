// Nothing of a run is lost or silently changed: refused resumes, folders that hold something, two processes, changed models
// and other machines.

#include <csignal>
#include <fstream>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/hash.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/kernels/cpu/instruction_set.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunSafetyTest : public ::testing::Test {
protected:
    RunSafetyTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        copy_model("gpt2", folder_ / "source", {{"resid_pdrop", "0.1"}});
    }

    [[nodiscard]] std::vector<std::string> start(const std::string& run, int64_t steps = 4,
                                                 const std::vector<std::string>& changes = {}) const {
        std::vector<std::string> arguments = {"train"};
        const auto set = [&](const std::string& text) { arguments.insert(arguments.end(), {"--set", text}); };
        set("model.from=" + (folder_ / "source").string());
        set("data.train=" + (folder_ / "data.safetensors").string());
        set("window.samples=7");
        set("schedule.warmup_steps=0");
        set(cat("schedule.steps=", steps));
        set("run.checkpoint_steps=2");
        set("run.folder=" + (folder_ / run).string());
        for (const std::string& change : changes) {
            set(change);
        }
        return arguments;
    }
    [[nodiscard]] std::vector<std::string> resume(const std::string& run,
                                                  const std::vector<std::string>& more = {}) const {
        std::vector<std::string> arguments = {"train", "--resume", (folder_ / run).string()};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    // A run stopped in the middle of four steps, at a checkpoint.
    void stopped_run(const std::string& run, const std::vector<std::string>& changes = {}) const {
        ASSERT_EQ(run_program(start(run, 4, changes)).exit_code, 0);
        fs::remove_all(folder_ / run / "checkpoints/step-4");
        fs::remove_all(folder_ / run / "model");
    }
    [[nodiscard]] std::string model_hash(const std::string& run) const {
        return sha256_of(folder_ / run / "model/model.safetensors");
    }
    // Every file below a folder with its contents' hash.
    [[nodiscard]] std::map<std::string, std::string> state_of(const fs::path& below) const {
        std::map<std::string, std::string> state;
        for (const auto& entry : fs::recursive_directory_iterator(below)) {
            state[entry.path().string()] = entry.is_regular_file() ? sha256_of(entry.path()) : "";
        }
        return state;
    }
    void expect_refused(const std::vector<std::string>& arguments, const std::string& message) const {
        const auto before = state_of(folder_.path());
        const ProgramResult result = run_program(arguments);
        EXPECT_EQ(result.exit_code, 1) << result.output;
        EXPECT_THAT(result.output, HasSubstr(message));
        EXPECT_TRUE(state_of(folder_.path()) == before) << "it changed files: " << result.output;
    }

    TemporaryFolder folder_;
};

TEST_F(RunSafetyTest, ARefusedResumeChangesNothing) {
    ASSERT_EQ(run_program(start("whole")).exit_code, 0);
    stopped_run("run");
    for (const auto& [override, message] :
         {std::pair{"compute.dtype=fp32", "compute.dtype"}, std::pair{"run.seed=5", "run.seed"},
          std::pair{"window.samples=9", "window.samples"}, std::pair{"compute.memory=1MiB", "smallest plan"},
          std::pair{"schedule.steps=1", "has done 2 steps already"},
          std::pair{"run.folder=elsewhere", "stays in its folder"}}) {
        expect_refused(resume("run", {"--set", override}), message);
    }
    ASSERT_EQ(run_program(resume("run")).exit_code, 0);
    EXPECT_EQ(model_hash("run"), model_hash("whole"));
}

TEST_F(RunSafetyTest, ARefusedStartLeavesNothing) {
    expect_refused(start("run", 4, {"compute.memory=1MiB"}), "smallest plan");
    std::ofstream(folder_ / "source/model.safetensors") << "damaged";
    expect_refused(start("run"), "model.safetensors");
}

TEST_F(RunSafetyTest, TrainingReplacesNoModel) {
    copy_model("gpt2", folder_ / "other/model", {});
    expect_refused(start("other", 4, {"model.from=" + (folder_ / "other/model").string()}), "would replace");
    expect_refused(start("other"), "it holds model");
    ASSERT_EQ(run_program(start("run")).exit_code, 0);
    fs::remove_all(folder_ / "run/checkpoints");
    expect_refused(start("run"), "is not empty");
    expect_refused(resume("run"), "holds a model but no checkpoint");
    auto again = start("run", 2);
    again.emplace_back("--overwrite");
    const ProgramResult result = run_program(again);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(list_checkpoints(folder_ / "run/checkpoints"), (std::vector<int64_t>{2}));
}

TEST_F(RunSafetyTest, AFolderIsWorkedInByOneProcess) {
    const std::string run = "run";
    const auto metrics = folder_ / run / "metrics.jsonl";
    ProgramResult second;
    ProgramResult third;
    const ProgramResult first = signal_program(start(run, 100'000), SIGTERM, [&] {
        if (!fs::exists(metrics) || fs::file_size(metrics) == 0) {
            return false;
        }
        second = run_program(start(run));
        third = run_program(resume(run));
        return true;
    });
    EXPECT_EQ(first.exit_code, 3) << first.output;
    for (const ProgramResult& refused : {second, third}) {
        EXPECT_EQ(refused.exit_code, 1) << refused.output;
        EXPECT_THAT(refused.output, HasSubstr("is in use by process "));
    }
    EXPECT_FALSE(fs::exists(folder_ / run / "run.lock")) << "the end removes the lock";
    const ProgramResult killed =
        signal_program(resume(run), SIGKILL, [&] { return fs::exists(folder_ / run / "run.lock"); });
    EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed.output;
    EXPECT_TRUE(fs::exists(folder_ / run / "run.lock"));
    const ProgramResult after = signal_program(
        resume(run), SIGTERM, [&, lines = fs::file_size(metrics)] { return fs::file_size(metrics) > lines; });
    EXPECT_EQ(after.exit_code, 3) << "a lock that a kill left keeps nobody out:\n" << after.output;
}

TEST_F(RunSafetyTest, AChangedModelConfigurationIsRefused) {
    ASSERT_EQ(run_program(start("whole")).exit_code, 0);
    for (const auto& [key, value] :
         {std::pair{"resid_pdrop", "0.2"}, std::pair{"layer_norm_epsilon", "0.001"}, std::pair{"n_head", "2"}}) {
        fs::remove_all(folder_ / "run");
        copy_model("gpt2", folder_ / "source", {{"resid_pdrop", "0.1"}});
        stopped_run("run");
        const std::string original = read_text(folder_ / "source/config.json");
        std::map<std::string, std::string> changed = {{"resid_pdrop", "0.1"}};
        changed[key] = value;
        copy_model("gpt2", folder_ / "source", changed);
        expect_refused(resume("run"), "belongs to another model");
        write_text(folder_ / "source/config.json", original);
        ASSERT_EQ(run_program(resume("run")).exit_code, 0);
        EXPECT_EQ(model_hash("run"), model_hash("whole"));
    }
}

TEST_F(RunSafetyTest, ARunGoesOnWithoutTheFolderItsModelCameFrom) {
    ASSERT_EQ(run_program(start("whole")).exit_code, 0);
    stopped_run("run");
    fs::rename(folder_ / "source", folder_ / "moved");
    EXPECT_EQ(
        run_program({"eval", (folder_ / "run").string(), "--data", (folder_ / "data.safetensors").string()}).exit_code,
        0)
        << "evaluating a checkpoint needs it as little";
    const ProgramResult result = run_program(resume("run"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(model_hash("run"), model_hash("whole"));
    EXPECT_EQ(read_text(folder_ / "run/model/config.json"), read_text(folder_ / "whole/model/config.json"));
}

TEST_F(RunSafetyTest, ARunGoesOnWithoutThePlaceOfItsTokenizer) {
    write_text(folder_ / "source/tokenizer.json", tokenizer_of_letters({"<|endoftext|>"}));
    write_text(folder_ / "book.txt", "it was a dark and stormy night and the rain fell in torrents except at times");
    const std::vector<std::string> text = {"data.train=" + (folder_ / "book.txt").string(), "data.sequence_length=8"};
    ASSERT_EQ(run_program(start("whole", 4, text)).exit_code, 0);
    stopped_run("run", text);
    fs::rename(folder_ / "source", folder_ / "moved");
    const ProgramResult result = run_program(resume("run"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(model_hash("run"), model_hash("whole"));
    EXPECT_EQ(read_text(folder_ / "run/model/tokenizer.json"), read_text(folder_ / "whole/model/tokenizer.json"));
}

TEST_F(RunSafetyTest, OtherBitsAreRefusedOrRecorded) {
    if (cpu::best_instruction_set() <= cpu::InstructionSet::avx2) {
        GTEST_SKIP() << "this processor has one instruction set for runs";
    }
    ASSERT_EQ(run_program(start("whole", 4, {"compute.instruction_set=avx512"})).exit_code, 0);
    stopped_run("run", {"compute.instruction_set=avx512"});
    const std::vector<std::string> other = {"--set", "compute.instruction_set=avx2"};
    expect_refused(resume("run", other), "--set compute.instruction_set=avx512");
    fs::copy(folder_ / "run", folder_ / "accepted", fs::copy_options::recursive);
    ASSERT_EQ(run_program(resume("run")).exit_code, 0);
    EXPECT_EQ(model_hash("run"), model_hash("whole"));

    const ProgramResult accepted = run_program(resume("accepted", {other[0], other[1], "--accept-other-bits"}));
    ASSERT_EQ(accepted.exit_code, 0) << accepted.output;
    EXPECT_THAT(accepted.output, HasSubstr("bits: since step 2 those of cpu with avx2"));
    EXPECT_THAT(run_program({"inspect", (folder_ / "accepted").string()}).output,
                HasSubstr("until step 2: cpu with avx512"));
    expect_refused(resume("accepted", {"--set", "compute.instruction_set=avx512"}),
                   "--set compute.instruction_set=avx2");
}

TEST_F(RunSafetyTest, ACheckpointWithOtherKernelsBitsIsRefused) {
    stopped_run("run");
    const fs::path checkpoint = folder_ / "run/checkpoints/step-2";
    auto state = nlohmann::ordered_json::parse(read_text(checkpoint / "state.json"));
    const auto refused_with = [&](const nlohmann::ordered_json& changed, const std::string& message) {
        auto manifest = nlohmann::ordered_json::parse(read_text(checkpoint / "manifest.json"));
        const std::string text = changed.dump(2) + "\n";
        write_text(checkpoint / "state.json", text);
        for (auto& [name, file] : manifest["files"].items()) {
            if (name == "state.json") {
                file["bytes"] = text.size();
                file["checksum"] = hash_of(std::as_bytes(std::span(text)));
            }
        }
        write_text(checkpoint / "manifest.json", manifest.dump(2) + "\n");
        expect_refused(resume("run"), message);
    };
    auto older = state;
    older["numerics"]["now"]["version"] = 0;
    refused_with(older, "numerics version 0; this one has");
    auto unlike = state;
    unlike["numerics"]["now"]["fingerprint"] = "another";
    refused_with(unlike, "a probe grain, computed as then, gives other bits now");
    auto silent = state;
    silent.erase("numerics");
    refused_with(silent, "of an older version of accrue");
}

}  // namespace
}  // namespace accrue::testing
