// The default job, shortened: what a stranger's first command leaves behind.

#include "tests/support.h"
#include <gtest/gtest.h>

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

TEST(DefaultJobTest, RunsAreNumberedAndHoldWhatTheyPromise) {
    TemporaryFolder folder;
    const std::vector<std::string> arguments = {
        "train", "--set", "schedule.steps=2", "--set", "window.samples=2", "--set", "data.sequence_length=32"};
    for (const char* number : {"1", "2"}) {
        const ProgramResult result = run_program(arguments, folder.path());
        ASSERT_EQ(result.exit_code, 0) << result.output;
        const fs::path run = folder / "runs" / number;
        for (const char* file : {"run.toml", "metrics.jsonl", "report.html", "checkpoints/step-2", "model/config.json",
                                 "model/model.safetensors"}) {
            EXPECT_TRUE(fs::exists(run / file)) << file;
        }
        EXPECT_NE(result.output.find("\nvalidation loss: "), std::string::npos) << result.output;
        EXPECT_LT(result.output.find("\nvalidation loss before the first step: "), result.output.find("\nstep 1/2"))
            << result.output;
        EXPECT_NE(result.output.find("It writes:"), std::string::npos) << result.output;
        EXPECT_EQ(result.output.find('\r'), std::string::npos) << "a pipe gets plain lines";
    }
    EXPECT_EQ(sha256_of(folder / "runs/1/model/model.safetensors"),
              sha256_of(folder / "runs/2/model/model.safetensors"));

    const ProgramResult once =
        run_program({"sample", "runs/1", "Once", "--tokens", "20", "--seed", "3"}, folder.path());
    EXPECT_EQ(once.exit_code, 0) << once.output;
    EXPECT_EQ(once.output.substr(0, 4), "Once");
    EXPECT_EQ(run_program({"sample", "runs/1", "Once", "--tokens", "20", "--seed", "3"}, folder.path()).output,
              once.output);
    EXPECT_NE(run_program({"sample", "runs/1", "Once", "--tokens", "20", "--seed", "4"}, folder.path()).output,
              once.output);
    const ProgramResult measured = run_program({"eval", "runs/1"}, folder.path());
    EXPECT_EQ(measured.exit_code, 0) << measured.output;
    EXPECT_NE(measured.output.find("perplexity"), std::string::npos) << measured.output;
}

}  // namespace
}  // namespace accrue::testing
