// The walk in the README: a model folder and conversations become a fine-tuned model that answers and is exported.

#include <chrono>
#include <csignal>

#include "tests/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/file_lock.h"
#include "accrue/tensor/gguf.h"
#include "accrue/tensor/safetensors.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kQuestion = "Who are you?";
constexpr const char* kAnswer = "A small model.";

class FineTuneTest : public ::testing::Test {
protected:
    FineTuneTest() {
        copy_model("llama", folder_ / "model", {});
        write_text(folder_ / "model" / "tokenizer.json",
                   tokenizer_of_letters({"<|endoftext|>", "<|im_start|>", "<|im_end|>"}));
        write_text(folder_ / "chat.jsonl", cat(R"({"messages": [{"role": "user", "content": ")", kQuestion,
                                               R"("}, {"role": "assistant", "content": ")", kAnswer, "\"}]}\n"));
        write_text(folder_ / "finetune.toml",
                   "[model]\nfrom = \"model\"\n[data]\ntrain = [\"chat.jsonl\"]\nlayout = \"padded\"\n"
                   "[window]\nsamples = 8\n[optimizer]\nrate = 1e-2\n[schedule]\nsteps = 60\nwarmup_steps = 5\n");
    }

    [[nodiscard]] std::string output_of(const std::vector<std::string>& arguments) const {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, 0) << result.output;
        return result.output;
    }

    TemporaryFolder folder_;
};

TEST_F(FineTuneTest, AModelLearnsItsConversationsAnswersAndIsExported) {
    const std::string trained =
        output_of({"train", "--set", "model.from=model", "--set", "data.train=chat.jsonl", "--set",
                   "data.layout=padded", "--set", "optimizer.rate=1e-2", "--set", "schedule.steps=60"});
    EXPECT_NE(trained.find("tokens: "), std::string::npos) << trained;
    EXPECT_NE(trained.find("Done: 60 steps"), std::string::npos) << trained;
    EXPECT_EQ(output_of({"sample", "runs/1", kQuestion, "--chat", "--temperature", "0"}), cat(kAnswer, "\n"));

    (void)output_of({"export", "runs/1", "--to", "hf"});
    EXPECT_EQ(output_of({"sample", "runs/1/model-bf16", kQuestion, "--chat", "--temperature", "0"}),
              cat(kAnswer, "\n"));
    const SafetensorsFile exported(folder_ / "runs" / "1" / "model-bf16" / "model.safetensors");
    EXPECT_EQ(exported.at("lm_head.weight").dtype, "BF16");
    (void)output_of({"export", "runs/1", "--to", "gguf"});
    EXPECT_GT(GgufFile(folder_ / "runs" / "1" / "model-bf16.gguf").tensors().size(), 0U);
}

TEST_F(FineTuneTest, OnlyTheAnswerCounts) {
    (void)output_of({"train", "finetune.toml", "--set", "schedule.steps=1", "--set", "schedule.warmup_steps=0"});
    const auto line = Json::parse(read_text(folder_ / "runs" / "1" / "metrics.jsonl"));
    // The answer, the mark behind it, a line end and the end of the document; one sample, not eight.
    EXPECT_EQ(line.at("samples"), 1);
    EXPECT_LE(line.at("tokens"), std::string(kAnswer).size() + 3);
    EXPECT_GE(line.at("tokens"), std::string(kAnswer).size() + 1);
}

TEST_F(FineTuneTest, TheSecondRunFindsItsTokens) {
    const std::vector<std::string> train = {"train", "finetune.toml",          "--set", "schedule.steps=1",
                                            "--set", "schedule.warmup_steps=0"};
    EXPECT_NE(output_of(train).find("in 1 document, tokenized from "), std::string::npos);
    const std::string again = output_of(train);
    EXPECT_NE(again.find("in 1 document, tokenized before (in runs/token-cache)"), std::string::npos) << again;
    EXPECT_NE(again.find("folder: runs/2"), std::string::npos) << again;
}

// Another process seems to build the cache, because this one holds its lock.
TEST_F(FineTuneTest, ASignalEndsTheWaitForTokens) {
    const auto train_into = [&](const std::string& run) -> std::vector<std::string> {
        return {"train", (folder_ / "finetune.toml").string(),
                "--set", "schedule.steps=1",
                "--set", "schedule.warmup_steps=0",
                "--set", cat("run.folder=", (folder_ / "runs" / run).string())};
    };
    const fs::path caches = folder_ / "runs" / "token-cache";
    fs::last_write_time(folder_ / "chat.jsonl", fs::file_time_type::clock::now() - std::chrono::hours(1));
    (void)output_of(train_into("1"));
    fs::path lock_file;
    for (const fs::directory_entry& entry : fs::directory_iterator(caches)) {
        if (entry.is_directory()) {
            lock_file = entry.path().string() + ".lock";
            fs::remove(entry.path() / "header");
        }
    }
    ASSERT_FALSE(lock_file.empty());
    fs::remove(caches / "contents");  // written again just before the wait
    const FileLock lock(lock_file, [] {});
    const ProgramResult result =
        signal_program(train_into("2"), SIGINT, [&] { return fs::exists(caches / "contents"); });
    EXPECT_EQ(result.exit_code, 3) << result.output;
    EXPECT_NE(result.output.find("Stopped before the first step."), std::string::npos) << result.output;
    EXPECT_FALSE(fs::exists(folder_ / "runs" / "2"));
}

}  // namespace
}  // namespace accrue::testing
