// What commands know of several workers: what the program prints, and what of it must hold.

#include <fstream>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TeamCommandsTest : public ::testing::Test {
protected:
    TeamCommandsTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    // A command and what it is about, then what is asked.
    [[nodiscard]] ProgramResult run(const std::string& command, const std::vector<std::string>& more) const {
        std::vector<std::string> arguments = {command};
        for (const std::string& setting :
             {"model.from=" + golden("llama").string(), "data.train=" + (folder_ / "data.safetensors").string(),
              std::string("window.samples=7"), std::string("window.grain_samples=1"), std::string("schedule.steps=40"),
              std::string("schedule.warmup_steps=0"), std::string("run.evaluate_steps=0"),
              std::string("compute.device=cpu"), std::string("compute.threads=2")}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_program(arguments, folder_.path());
    }
    [[nodiscard]] std::string weights(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors").substr(0, 64);
    }
    void train(const std::string& run, const std::vector<std::string>& more = {}) const {
        std::vector<std::string> arguments = {"--set", "run.folder=" + (folder_ / run).string()};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const ProgramResult result = this->run("train", arguments);
        ASSERT_EQ(result.exit_code, 0) << result.output;
    }

    TemporaryFolder folder_;
};

TEST_F(TeamCommandsTest, ARunByWorkersIsComparedAndShownAsAnyOther) {
    train("alone");
    train("team", {"--workers", "3"});
    const ProgramResult compared =
        run_program({"verify", "--runs", (folder_ / "alone").string(), (folder_ / "team").string()});
    EXPECT_EQ(compared.exit_code, 0) << compared.output;
    EXPECT_THAT(compared.output, AllOf(HasSubstr("40 steps compared"), HasSubstr("the same, bit for bit")));
    EXPECT_THAT(run_program({"inspect", (folder_ / "team").string()}).output,
                HasSubstr("workers:      3; exchange of sums: "));
    EXPECT_THAT(run_program({"inspect", (folder_ / "alone").string()}).output, Not(HasSubstr("workers:")));
    EXPECT_THAT(read_text(folder_ / "team" / "report.html"), HasSubstr("<span>Workers</span><b>3</b>"));
}

// Nothing differs but lines about workers and time: the text at the end too.
TEST_F(TeamCommandsTest, ARunByWorkersEndsWithTheSameText) {
    std::vector<std::string> texts;
    for (const std::string workers : {"0", "2"}) {
        std::vector<std::string> arguments = {"train", "--set", "run.folder=" + (folder_ / workers).string()};
        for (const char* setting : {"compute.device=cpu", "data.sequence_length=32", "window.samples=8",
                                    "window.grain_samples=2", "schedule.steps=3", "run.evaluate_steps=0"}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        if (workers != "0") {
            arguments.insert(arguments.end(), {"--workers", workers});
        }
        const ProgramResult result = run_program(arguments, folder_.path());
        ASSERT_EQ(result.exit_code, 0) << result.output;
        const size_t text = result.output.find("\nIt writes:\nOnce upon a time");
        const size_t end = result.output.find("\nDone: 3 steps");
        ASSERT_LT(text, end) << result.output;
        texts.push_back(result.output.substr(text, end - text));
        EXPECT_THAT(result.output, HasSubstr("try:         accrue sample"));
    }
    EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(TeamCommandsTest, VerifyComparesTheFilesOfProcesses) {
    train("alone", {"--set", "schedule.steps=80"});
    const ProgramResult result = run("verify", {"--workers", "2", "--windows", "80", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const auto json = nlohmann::json::parse(result.output);
    EXPECT_EQ(json.at("law_holds"), true);
    EXPECT_EQ(json.at("grains"), 7);
    ASSERT_EQ(json.at("ways").size(), 3U);
    for (const auto& way : json.at("ways")) {
        EXPECT_EQ(way.at("weights_sha256"), weights("alone")) << way.dump();
    }
    EXPECT_EQ(json.at("ways").at(0).at("workers"), 0);
    EXPECT_EQ(json.at("ways").at(1).at("lost_workers"), 0);
    EXPECT_GE(json.at("ways").at(2).at("lost_workers"), 1);
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
        EXPECT_THAT((std::vector<std::string>{"alone", "data.safetensors", "runs"}),
                    ::testing::Contains(entry.path().filename().string()))
            << "nothing is left behind";
    }
}

TEST_F(TeamCommandsTest, VerifyGoesOnFromARunAndLeavesItAlone) {
    train("run", {"--set", "schedule.steps=5"});
    const std::string before = read_text(folder_ / "run" / "metrics.jsonl") + weights("run");
    const ProgramResult result =
        run_program({"verify", (folder_ / "run").string(), "--workers", "2", "--windows", "60"});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("60 window(s) of 7 grain(s) each, from the checkpoint of step 5"),
                                     HasSubstr("The law holds: 3 ways"), HasSubstr("killed with SIGKILL")));
    EXPECT_EQ(read_text(folder_ / "run" / "metrics.jsonl") + weights("run"), before);
    EXPECT_TRUE(fs::exists(folder_ / "run" / "checkpoints" / "step-5"));
}

TEST_F(TeamCommandsTest, PlanKnowsWhatWorkersTake) {
    const ProgramResult result = run("plan", {"--workers", "3", "--link", "100 Mbit/s", "--typical", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const auto json = nlohmann::json::parse(result.output).at("workers");
    EXPECT_EQ(json.at("workers"), 3);
    EXPECT_EQ(json.at("link_bits_per_second"), 100e6);
    // Whatever a run by three workers sends is what was foretold, but for notices.
    train("team", {"--workers", "3"});
    std::ifstream metrics(folder_ / "team" / "metrics.jsonl");
    const double foretold = json.at("exchange_sent_bytes_of_all");
    for (std::string line; std::getline(metrics, line);) {
        const double sent = nlohmann::json::parse(line).at("exchange_bytes");
        EXPECT_NEAR(sent, foretold, 0.05 * foretold);
    }
}

TEST_F(TeamCommandsTest, WrongUseIsSaid) {
    const std::pair<std::vector<std::string>, std::string> wrong[] = {
        {{"plan", "--workers", "2", "--link", "1GB"},
         "--link must be how fast a network link is, in bits a second, like 1Gbit or 100Mbit/s, but is \"1GB\"."},
        {{"plan", "--link", "1Gbit"}, "say with --workers how many there are"},
        {{"advise", "--workers", "2", "--link", "fast"}, "--link must be how fast a network link is"},
        {{"plan", "--workers", "2", "--set", "compute.sums=fp32"}, "only exact sums of several workers add up alike"},
        {{"verify", "--workers", "2", "--set", "compute.sums=bf16"}, "only exact sums of several workers add up alike"},
        {{"plan", "--workers", "4", "--memory", "40MiB"}, "but the exchange of their sums alone takes"},
    };
    for (const auto& [arguments, words] : wrong) {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, 1) << result.output;
        EXPECT_THAT(result.output, HasSubstr(words));
    }
    EXPECT_EQ(run_program({"verify", "--workers", "1"}).exit_code, 2);
    EXPECT_EQ(run_program({"verify", "--windows", "3"}).exit_code, 2) << "of whom?";
    EXPECT_EQ(run_program({"verify", "--workers", "2", "--step", "3"}).exit_code, 2);
}

}  // namespace
}  // namespace accrue::testing
