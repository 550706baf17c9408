// `accrue advise` as a user runs it.

#include "tests/support.h"
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A small job, and then what is asked.
std::vector<std::string> advise(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"advise"};
    for (const char* setting : {"data.sequence_length=32", "window.samples=4", "window.grain_samples=1",
                                "compute.threads=1", "schedule.steps=3", "run.evaluate_steps=0"}) {
        arguments.insert(arguments.end(), {"--set", setting});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

TEST(AdviseProgramTest, AnswersFirst) {
    const TemporaryFolder folder;
    const ProgramResult result = run_program(advise({}), folder.path());
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, StartsWith("Bound by "));
    EXPECT_THAT(result.output, HasSubstr("what a change would do"));
    EXPECT_THAT(result.output, HasSubstr("is this window worth having?"));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "advice leaves nothing behind";
}

TEST(AdviseProgramTest, TakesSettingsAndNoiseFromARun) {
    const TemporaryFolder folder;
    std::vector<std::string> arguments = advise({"--set", cat("run.folder=", (folder / "run").string())});
    arguments.front() = "train";
    ASSERT_EQ(run_program(arguments, folder.path()).exit_code, 0);
    const ProgramResult result = run_program({"advise", "--run", (folder / "run").string(), "--json"}, folder.path());
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const auto json = nlohmann::json::parse(result.output);
    EXPECT_EQ(json.at("times").at("tokens"), 4 * 32);  // by run.toml of the run
    EXPECT_EQ(json.at("window").at("noise_scale").at("steps"), 3);
    EXPECT_NE(json.at("window").at("verdict"), "unknown");
}

// Worker processes really run, and what they send is what was foretold.
TEST(AdviseProgramTest, ForWorkersPredictedAndMeasuredStandSideBySide) {
    const TemporaryFolder folder;
    const ProgramResult result =
        run_program(advise({"--set", "compute.device=cpu", "--workers", "2", "--link", "1Gbit"}), folder.path());
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, StartsWith("2 machines with links of 1 Gbit/s: bound by "));
    for (const char* part :
         {"accumulating more before sums are exchanged", "2 workers here, 3 windows", "one of them alone\nBound by "}) {
        EXPECT_THAT(result.output, HasSubstr(part));
    }
    const ProgramResult shared =
        run_program(advise({"--set", "compute.device=cpu", "--workers", "2", "--json"}), folder.path());
    ASSERT_EQ(shared.exit_code, 0) << shared.output;
    const auto json = nlohmann::json::parse(shared.output).at("workers");
    const double foretold = json.at("exchange_sent_bytes_of_all");
    const auto& measured = json.at("measured_on_this_machine");
    EXPECT_NEAR(measured.at("exchange_sent_bytes_of_all").get<double>(), foretold, 0.05 * foretold);
    EXPECT_GT(measured.at("window_seconds"), measured.at("exchange_seconds"));
    EXPECT_GT(json.at("measured_gain"), 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        ADD_FAILURE() << "advice leaves " << entry.path() << " behind";
    }
}

TEST(AdviseProgramTest, WrongUseIsSaidBeforeAnythingIsMeasured) {
    const TemporaryFolder folder;
    const ProgramResult nowhere = run_program(advise({"--run", "nowhere"}), folder.path());
    EXPECT_EQ(nowhere.exit_code, 1);
    EXPECT_THAT(nowhere.output, HasSubstr("--run nowhere: there is no such folder"));
    const ProgramResult empty = run_program(advise({"--run", "."}), folder.path());
    EXPECT_EQ(empty.exit_code, 1);
    EXPECT_THAT(empty.output, HasSubstr("metrics.jsonl cannot be read"));
    write_text(folder / "metrics.jsonl", "no metrics\n");
    const ProgramResult torn = run_program(advise({"--run", "."}), folder.path());
    EXPECT_EQ(torn.exit_code, 1);
    EXPECT_THAT(torn.output, HasSubstr("holds no step yet"));
    const ProgramResult file = run_program({"advise", "missing.toml"}, folder.path());
    EXPECT_EQ(file.exit_code, 1);
    EXPECT_THAT(file.output, HasSubstr("missing.toml"));
    const ProgramResult memory = run_program(advise({"--set", "compute.memory=1MiB"}), folder.path());
    EXPECT_EQ(memory.exit_code, 1);
    EXPECT_THAT(memory.output, HasSubstr("the smallest plan needs"));
    EXPECT_EQ(run_program({"advise", "--no-such-option"}, folder.path()).exit_code, 2);
}

}  // namespace
}  // namespace accrue::testing
