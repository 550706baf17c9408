// Signals, closed pipes and full disks, as they reach the real program.

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using Output = ProgramSetup::Output;

class SignalProgramTest : public ::testing::Test {
protected:
    SignalProgramTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] std::vector<std::string> train_arguments(const std::vector<std::string>& more) const {
        std::vector<std::string> arguments = {"train"};
        for (const std::string& setting :
             {"model.from=" + golden("llama").string(), "data.train=" + (folder_ / "data.safetensors").string(),
              std::string("window.samples=4"), std::string("compute.threads=1"),
              std::string("run.checkpoint_steps=1000000"), "run.folder=" + run_.string()}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        for (const std::string& setting : more) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return arguments;
    }
    [[nodiscard]] bool has_steps(int64_t steps) const {
        std::ifstream metrics(run_ / "metrics.jsonl");
        for (std::string line; steps > 0 && std::getline(metrics, line);) {
            --steps;
        }
        return steps == 0;
    }
    static void expect_says(const ProgramResult& result, const std::string& words) {
        EXPECT_NE(result.output.find(words), std::string::npos) << "no \"" << words << "\" in: " << result.output;
    }

    TemporaryFolder folder_;
    fs::path run_ = folder_ / "run";
};

TEST_F(SignalProgramTest, AStoppedRunSaysSoAtOnceSavesAndExitsWithThree) {
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
        SCOPED_TRACE(signal);
        fs::remove_all(run_);
        const ProgramResult result =
            signal_program(train_arguments({"schedule.steps=1000000"}), signal, [&] { return has_steps(2); });
        EXPECT_EQ(result.exit_code, 3) << result.output;
        expect_says(result, "Stopping: finishing this micro-batch (");  // how long it takes is the machine's affair
        expect_says(result, "), then saving a checkpoint.\nPress Ctrl-C again to stop at once without saving.\n");
        expect_says(result, "accrue train --resume " + run_.string());
        EXPECT_EQ(list_checkpoints(run_ / "checkpoints").size(), 1U);
    }
}

TEST_F(SignalProgramTest, UnderNohupAHangupChangesNothing) {
    const ProgramResult result = signal_program(train_arguments({"schedule.steps=10"}), SIGHUP,
                                                [&] { return has_steps(2); }, {.ignored_signals = {SIGHUP}});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_TRUE(has_steps(10));
}

TEST_F(SignalProgramTest, ARunNeedsNobodyToReadWhatItPrints) {
    for (const Output output : {Output::closed, Output::full_disk}) {
        fs::remove_all(run_);
        const ProgramResult result = run_program(train_arguments({"schedule.steps=3"}), {.output = output});
        EXPECT_EQ(result.exit_code, 0) << result.output;
        EXPECT_EQ(result.output, "");
        EXPECT_TRUE(has_steps(3));
        EXPECT_TRUE(fs::exists(run_ / "model" / "model.safetensors"));
        EXPECT_TRUE(fs::exists(run_ / "report.html"));
    }
}

// The second would print for hours.
TEST_F(SignalProgramTest, CommandsThatPrintEndQuietlyWithTheirReader) {
    const std::string model = golden("llama").string();
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"inspect", model}, {"sample", model, "1 2 3", "--tokens", "1000000"}, {"--help"}}) {
        for (const std::vector<int>& ignored : {std::vector<int>{}, {SIGPIPE}}) {
            const ProgramResult result = run_program(arguments, {.output = Output::closed, .ignored_signals = ignored});
            EXPECT_EQ(result.exit_code, 128 + SIGPIPE) << arguments.front();
            EXPECT_EQ(result.output, "") << arguments.front();
        }
    }
}

TEST_F(SignalProgramTest, OutputThatIsLostIsAnErrorWhereItIsAllThatWasWanted) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"inspect", golden("llama").string()}, {"--help"}, {"--version"}}) {
        const ProgramResult result = run_program(arguments, {.output = Output::full_disk});
        EXPECT_EQ(result.exit_code, 1) << arguments.front();
        expect_says(result, "accrue: the output could not be written: ");
    }
}

TEST_F(SignalProgramTest, ALimitOnTheSizeOfFilesIsAnErrorAndTheRunGoesOnWithoutIt) {
    const std::vector<std::string> arguments = train_arguments({"schedule.steps=4", "run.checkpoint_steps=2"});
    const ProgramResult result = run_program(arguments, {.largest_file = 40'000});
    EXPECT_EQ(result.exit_code, 1) << result.output;
    expect_says(result, "step-2");
    expect_says(result, "the file size limit is reached");
    EXPECT_TRUE(list_checkpoints(run_ / "checkpoints").empty());
    const ProgramResult rest = run_program({"train", "--resume", run_.string()});
    EXPECT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_TRUE(has_steps(4));
}

TEST_F(SignalProgramTest, ADemoThatIsStoppedLeavesNothingBehind) {
    fs::create_directory(folder_ / "temporary");
    setenv("TMPDIR", (folder_ / "temporary").c_str(), 1);
    const ProgramResult result =
        signal_program({"demo", "--steps", "10000"}, SIGINT, [&] { return !fs::is_empty(folder_ / "temporary"); });
    unsetenv("TMPDIR");
    EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.output;
    EXPECT_TRUE(fs::is_empty(folder_ / "temporary"));
}

TEST(WrongUseTest, UnknownWordsAreNamedWithTheNearestKnownOne) {
    const auto said = [](const std::vector<std::string>& arguments) {
        const ProgramResult result = run_program(arguments);
        EXPECT_EQ(result.exit_code, 2) << result.output;
        return result.output;
    };
    EXPECT_EQ(said({"trian"}),
              "accrue: trian is not a command of accrue. Did you mean train? accrue --help lists them.\n");
    EXPECT_EQ(said({"frobnicate"}), "accrue: frobnicate is not a command of accrue. accrue --help lists them.\n");
    EXPECT_EQ(said({"tokenizer", "trian"}),
              "accrue: trian is not a command of accrue tokenizer. Did you mean train? accrue tokenizer --help lists "
              "them.\n");
    EXPECT_EQ(said({"train", "--memroy=3GiB"}),
              "accrue: --memroy is not an option of accrue train. Did you mean --memory? accrue train --help lists "
              "them.\n");
    EXPECT_EQ(said({"--verison"}),
              "accrue: --verison is not an option of accrue. Did you mean --version? accrue --help lists them.\n");
}

TEST(WrongUseTest, ExitCodesAreInTheHelp) {
    const std::string help = run_program({"--help"}).output;
    for (const char* words :
         {"Exit codes:", "  0  done", "  1  an error", "  2  wrong use", "  3  accrue train or serve was"}) {
        EXPECT_NE(help.find(words), std::string::npos) << words << " in: " << help;
    }
    for (const auto& [command, words] : {std::pair{"train", "the exit code is 3"},
                                         {"verify", "Exit code: 0 if everything compared is the same, 1 if not."},
                                         {"plan", "Exit code: 0 if a plan fits, 1 if none does."}}) {
        EXPECT_NE(run_program({command, "--help"}).output.find(words), std::string::npos) << command;
    }
}

TEST(WrongUseTest, AWindowLargerThanTheDataIsAllTheData) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    for (const char* window : {"window.samples=1000000000", "window.tokens=1000000000"}) {
        fs::remove_all(folder / "run");
        const ProgramResult result =
            run_program({"train", "--set", "model.from=" + golden("llama").string(), "--set",
                         "data.train=" + (folder / "data.safetensors").string(), "--set", window, "--set",
                         "schedule.steps=1", "--set", "run.folder=" + (folder / "run").string()});
        EXPECT_EQ(result.exit_code, 0) << result.output;
        EXPECT_NE(read_text(folder / "run" / "metrics.jsonl").find("\"samples\":30,"), std::string::npos);
    }
}

}  // namespace
}  // namespace accrue::testing
