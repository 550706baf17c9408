// The program as a user runs it: parity, the law through kills and stops, and where everything lies.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "tests/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/tensor/safetensors.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

int64_t lines_of(const fs::path& file) {
    std::ifstream input(file);
    int64_t lines = 0;
    for (std::string line; std::getline(input, line);) {
        ++lines;
    }
    return lines;
}

// `accrue train` with settings that differ from the defaults only where said.
std::vector<std::string> train_with(const std::map<std::string, std::string>& values) {
    std::vector<std::string> arguments = {"train"};
    for (const auto& [key, value] : values) {
        arguments.insert(arguments.end(), {"--set", key + "=" + value});
    }
    return arguments;
}

TEST(ProgramTest, EndsWithTheGoldenLossesAndWeights) {
    for (const char* model : {"gpt2", "llama", "llama-tied", "llama3-rope", "qwen2", "qwen3"}) {
        for (const auto& [grain_samples, micro_batch] : {std::pair{1, 1}, std::pair{3, 2}}) {
            SCOPED_TRACE(cat(model, ", grains of ", grain_samples));
            TemporaryFolder folder;
            const auto expected = nlohmann::json::parse(read_text(golden(model) / "expected.json"));
            write_text(folder / "job.toml",
                       cat("[model]\nfrom = \"", golden(model).string(), "\"\n[data]\ntrain = [\"",
                           (golden(model) / "batch.safetensors").string(),
                           "\"]\norder = \"sequential\"\n[window]\nsamples = ", expected.at("window_sequences").dump(),
                           "\ngrain_samples = ", grain_samples, "\nmicro_batch_grains = ", micro_batch,
                           "\n[optimizer]\nrate = 1e-2\n[schedule]\nkind = \"constant\"\n",
                           "steps = 3\nwarmup_steps = 0\n[compute]\ndtype = \"fp32\"\n[run]\nfolder = \"run\"\n"));
            const ProgramResult result = run_program({"train", (folder / "job.toml").string()});
            ASSERT_EQ(result.exit_code, 0) << result.output;

            std::ifstream metrics(folder / "run" / "metrics.jsonl");
            for (const auto& step : expected.at("steps")) {
                std::string line;
                ASSERT_TRUE(std::getline(metrics, line));
                const auto got = nlohmann::json::parse(line);
                EXPECT_NEAR(got.at("loss"), step.at("loss"), 1e-5 * step.at("loss").get<double>());
                EXPECT_NEAR(got.at("grad_norm"), step.at("grad_norm"), 1e-4 * step.at("grad_norm").get<double>());
                EXPECT_EQ(got.at("tokens"), step.at("tokens"));
                EXPECT_GT(got.at("grains"), 1);
            }
            const SafetensorsFile wanted(golden(model) / "after.safetensors");
            const SafetensorsFile written(folder / "run" / "model" / "model.safetensors");
            ASSERT_EQ(wanted.tensors().size(), written.tensors().size());
            for (const auto& [name, tensor] : wanted.tensors()) {
                std::vector<float> a(static_cast<size_t>(tensor.elements()));
                std::vector<float> b(a.size());
                wanted.read_floats(name, a);
                written.read_floats(name, b);
                double difference = 0;
                double norm = 0;
                for (size_t i = 0; i < a.size(); ++i) {
                    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
                    norm += std::pow(static_cast<double>(a[i]), 2);
                }
                EXPECT_LT(std::sqrt(difference / norm), 1e-3) << name;
            }
        }
    }
}

class ProgramLawTest : public ::testing::TestWithParam<std::string> {
protected:
    ProgramLawTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        write_ragged_data(folder_ / "validation.safetensors", {.samples = 5, .seed = 9});
        copy_model("gpt2", folder_ / "model", {{"resid_pdrop", "0.1"}, {"embd_pdrop", "0.1"}, {"attn_pdrop", "0.1"}});
    }

    [[nodiscard]] std::map<std::string, std::string> settings(const std::string& run) const {
        return {{"model.from", (folder_ / "model").string()},
                {"data.train", "[\"" + (folder_ / "data.safetensors").string() + "\"]"},
                {"data.validation", "[\"" + (folder_ / "validation.safetensors").string() + "\"]"},
                {"window.samples", "7"},
                {"window.grain_samples", "1"},
                {"window.micro_batch_grains", "1"},
                {"optimizer.rate", "1e-2"},
                {"schedule.steps", "20"},
                {"schedule.warmup_steps", "3"},
                {"compute.dtype", GetParam()},
                {"compute.threads", "1"},
                {"run.checkpoint_steps", "3"},
                {"run.evaluate_steps", "6"},
                {"run.folder", (folder_ / run).string()}};
    }
    [[nodiscard]] std::string hash_of_run(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors");
    }
    void train_undisturbed(const std::string& run, std::map<std::string, std::string> changes = {}) const {
        changes.merge(settings(run));
        const ProgramResult result = run_program(train_with(changes));
        ASSERT_EQ(result.exit_code, 0) << result.output;
    }
    // An endless run whose windows take far longer than what lies between them, on any machine.
    [[nodiscard]] std::map<std::string, std::string> long_windows(const std::string& run) const {
        write_ragged_data(folder_ / "long.safetensors", {.samples = 200});
        std::map<std::string, std::string> values = endless(run);
        values["data.train"] = (folder_ / "long.safetensors").string();
        values["window.samples"] = "100";
        return values;
    }
    // A run that never ends by itself, so that every signal finds it at work.
    [[nodiscard]] std::map<std::string, std::string> endless(const std::string& run) const {
        std::map<std::string, std::string> values = settings(run);
        values["schedule.steps"] = "1000000";
        return values;
    }
    // Starts or resumes it and sends the signal when so many more steps are written down and the file has then been looked
    // at so many times more: a signal at once would always find the run between two windows.
    [[nodiscard]] ProgramResult disturb(const std::string& run, const std::vector<std::string>& arguments, int signal,
                                        int64_t more_steps, int64_t looks_after = 0) const {
        const fs::path metrics = folder_ / run / "metrics.jsonl";
        const int64_t steps = lines_of(metrics) + more_steps;
        return signal_program(arguments, signal, [&] { return lines_of(metrics) >= steps && looks_after-- <= 0; });
    }
    // The same with other threads than before.
    [[nodiscard]] ProgramResult disturb_again(const std::string& run, int signal, int64_t attempt,
                                              int64_t looks_after = 0) const {
        return disturb(run,
                       {"train", "--resume", (folder_ / run).string(), "--set",
                        cat("compute.threads=", 1 + attempt % 3), "--set", "window.micro_batch_grains=1"},
                       signal, 1 + static_cast<int64_t>(mix(11, static_cast<uint64_t>(attempt)) % 5), looks_after);
    }
    // Both runs took the same steps with the same weights, as far as both went; at least so many.
    void expect_same_steps(const std::string& a, const std::string& b, size_t at_least) const {
        for (const std::string& run : {a, b}) {  // a kill may leave half a line
            const fs::path metrics = folder_ / run / "metrics.jsonl";
            const std::string text = read_text(metrics);
            write_text(metrics, text.substr(0, text.rfind('\n') + 1));
        }
        auto steps = comparable_metrics(folder_ / a / "metrics.jsonl", MicroBatches::compare);
        auto others = comparable_metrics(folder_ / b / "metrics.jsonl", MicroBatches::compare);
        const size_t common = std::min(steps.size(), others.size());
        ASSERT_GE(common, at_least);
        steps.resize(common);
        others.resize(common);
        EXPECT_EQ(steps, others);
        const auto has_hash = [](const std::string& step) { return step.find("weights_hash") != std::string::npos; };
        EXPECT_GE(std::count_if(steps.begin(), steps.end(), has_hash), std::ssize(steps) / 3)
            << "the weights are compared at every checkpoint";
    }

    TemporaryFolder folder_;
};

TEST_P(ProgramLawTest, ThreadsAndCutsGiveTheSameFile) {
    train_undisturbed("whole");
    const auto metrics = comparable_metrics(folder_ / "whole" / "metrics.jsonl", MicroBatches::ignore);
    ASSERT_EQ(metrics.size(), 20U);
    for (const int threads : {1, 2, 3}) {
        for (const int grains : {1, 2, 5, 100}) {
            const std::string run = cat("cut-", threads, "-", grains);
            train_undisturbed(run, {{"compute.threads", cat(threads)}, {"window.micro_batch_grains", cat(grains)}});
            EXPECT_EQ(hash_of_run(run), hash_of_run("whole")) << run;
            EXPECT_EQ(comparable_metrics(folder_ / run / "metrics.jsonl", MicroBatches::ignore), metrics) << run;
        }
    }
}

TEST_P(ProgramLawTest, AKilledRunResumesToTheSameBits) {
    constexpr int64_t kKills = 8;
    ProgramResult killed = disturb("killed", train_with(endless("killed")), SIGKILL, 1);
    for (int64_t kill = 1; kill < kKills; ++kill) {
        ASSERT_EQ(killed.exit_code, 128 + SIGKILL) << killed.output;
        killed = disturb_again("killed", SIGKILL, kill);
    }
    ASSERT_EQ(killed.exit_code, 128 + SIGKILL) << killed.output;
    const int64_t steps = lines_of(folder_ / "killed" / "metrics.jsonl");
    ASSERT_GE(steps, kKills) << "each time it went on for a step at least";
    ASSERT_EQ(disturb("whole", train_with(endless("whole")), SIGKILL, steps).exit_code, 128 + SIGKILL);
    expect_same_steps("killed", "whole", kKills);
}

TEST_P(ProgramLawTest, ARunStoppedInsideAWindowResumesToTheSameBits) {
    constexpr int64_t kInside = 3;
    constexpr int64_t kMostStops = 100;  // a stop between two windows is as good, but not what is to be seen here
    const std::string run = "stopped";
    const auto is_inside = [&](const ProgramResult& result) {
        EXPECT_EQ(result.exit_code, 3) << result.output;
        EXPECT_NE(result.output.find("grain(s)"), std::string::npos) << result.output;
        return result.output.find("with 0 grain(s)") == std::string::npos;
    };
    int64_t inside = is_inside(disturb(run, train_with(long_windows(run)), SIGTERM, 1)) ? 1 : 0;
    for (int64_t stop = 1; stop < kMostStops && inside < kInside && !HasFailure(); ++stop) {
        inside += is_inside(disturb_again(run, SIGTERM, stop, stop * 37 % 400)) ? 1 : 0;
    }
    ASSERT_EQ(inside, kInside);
    // What was in the sums at the last stop is seen in the steps after it.
    ASSERT_EQ(disturb_again(run, SIGKILL, kMostStops).exit_code, 128 + SIGKILL);
    const int64_t steps = lines_of(folder_ / run / "metrics.jsonl");
    ASSERT_EQ(disturb("whole", train_with(long_windows("whole")), SIGKILL, steps).exit_code, 128 + SIGKILL);
    expect_same_steps(run, "whole", kInside);
}

// The folder as a kill between two checkpoints leaves it: lines of steps that no checkpoint holds, half a line, no model.
TEST_P(ProgramLawTest, ARunThatLostItsEndWritesTheSameFiles) {
    train_undisturbed("whole", {{"run.keep_checkpoints", "0"}});
    fs::copy(folder_ / "whole", folder_ / "torn", fs::copy_options::recursive);
    fs::remove_all(folder_ / "torn" / "model");
    fs::remove(folder_ / "torn" / "report.html");
    for (const int64_t step : list_checkpoints(folder_ / "torn" / "checkpoints")) {
        if (step > 9) {
            fs::remove_all(checkpoint_path(folder_ / "torn" / "checkpoints", step));
        }
    }
    std::string metrics = read_text(folder_ / "torn" / "metrics.jsonl");
    metrics.resize(metrics.find("{\"step\":12") + 20);
    write_text(folder_ / "torn" / "metrics.jsonl", metrics);
    const ProgramResult resumed = run_program({"train", "--resume", (folder_ / "torn").string()});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_EQ(hash_of_run("torn").substr(0, 64), hash_of_run("whole").substr(0, 64));
    EXPECT_EQ(comparable_metrics(folder_ / "torn" / "metrics.jsonl", MicroBatches::compare),
              comparable_metrics(folder_ / "whole" / "metrics.jsonl", MicroBatches::compare));
    EXPECT_TRUE(fs::exists(folder_ / "torn" / "report.html"));
}

INSTANTIATE_TEST_SUITE_P(Formats, ProgramLawTest, ::testing::Values("fp32", "bf16"),
                         [](const auto& info) { return info.param; });

TEST(ProgramTest, StopSaysHowToGoOnAndExitsWithThree) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    const fs::path run = folder / "run";
    const std::vector<std::string> arguments = train_with({{"model.from", golden("llama").string()},
                                                           {"data.train", (folder / "data.safetensors").string()},
                                                           {"schedule.steps", "1000000"},
                                                           {"run.folder", run.string()}});
    const ProgramResult result =
        signal_program(arguments, SIGINT, [&] { return lines_of(run / "metrics.jsonl") >= 2; });
    EXPECT_EQ(result.exit_code, 3) << result.output;
    EXPECT_NE(result.output.find("accrue train --resume " + run.string()), std::string::npos) << result.output;
    EXPECT_EQ(list_checkpoints(run / "checkpoints").size(), 1U);
}

TEST(ProgramTest, TheFirstStepTellsHowLongTheStartTook) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(run_program(train_with({{"model.from", golden("llama").string()},
                                      {"data.train", (folder / "data.safetensors").string()},
                                      {"schedule.steps", "2"},
                                      {"run.folder", (folder / "run").string()}}))
                  .exit_code,
              0);
    const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::ifstream metrics(folder / "run" / "metrics.jsonl");
    std::string first;
    std::string second;
    ASSERT_TRUE(std::getline(metrics, first) && std::getline(metrics, second));
    const double startup = nlohmann::json::parse(first).at("startup_seconds").get<double>();
    constexpr double kTick = 0.011;  // the system tells when a process began to 10 ms
    EXPECT_GT(startup, -kTick);
    EXPECT_LT(startup, all + kTick);
    EXPECT_FALSE(nlohmann::json::parse(second).contains("startup_seconds"));
}

TEST(ProgramTest, ASecondRunIntoAFolderWithACheckpointIsRefused) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    const auto arguments = train_with({{"model.from", golden("llama").string()},
                                       {"data.train", (folder / "data.safetensors").string()},
                                       {"schedule.steps", "2"},
                                       {"run.folder", (folder / "run").string()}});
    ASSERT_EQ(run_program(arguments).exit_code, 0);
    const std::string before = sha256_of(folder / "run" / "model" / "model.safetensors");
    const ProgramResult again = run_program(arguments);
    EXPECT_EQ(again.exit_code, 1);
    EXPECT_NE(again.output.find("--resume"), std::string::npos) << again.output;
    EXPECT_EQ(sha256_of(folder / "run" / "model" / "model.safetensors"), before);
}

TEST(ProgramTest, InspectSaysOnWhatARunWasComputed) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    ASSERT_EQ(run_program(train_with({{"model.from", golden("llama").string()},
                                      {"data.train", (folder / "data.safetensors").string()},
                                      {"schedule.steps", "2"},
                                      {"run.folder", (folder / "run").string()}}))
                  .exit_code,
              0);
    const std::string device(word_of(usual_device().kind));
    const ProgramResult run = run_program({"inspect", (folder / "run").string()});
    EXPECT_NE(run.output.find("\ndevice:       " + device + "\n"), std::string::npos) << run.output;
    const ProgramResult checkpoint = run_program({"inspect", (folder / "run" / "checkpoints" / "step-2").string()});
    EXPECT_NE(checkpoint.output.find("\nbits of:      " + device + " with "), std::string::npos) << checkpoint.output;
}

TEST(ProgramTest, AModelIsReadOnTheDeviceThatIsNamed) {
    const auto sample = [](const std::string& device) {
        return run_program({"sample", golden("llama").string(), "1 2 3", "--tokens", "2", "--device", device});
    };
    EXPECT_EQ(sample("cpu").exit_code, 0) << sample("cpu").output;
    EXPECT_EQ(sample("auto").exit_code, 0) << sample("auto").output;
    EXPECT_EQ(sample("gpu").exit_code, 2);
    const ProgramResult absent = sample("cuda:99");
    EXPECT_EQ(absent.exit_code, 1);
    EXPECT_NE(absent.output.find("compute.device is \"cuda:99\", but "), std::string::npos) << absent.output;
}

TEST(ProgramTest, HelpVersionAndWrongUse) {
    EXPECT_EQ(run_program({"--help"}).exit_code, 0);
    const ProgramResult help = run_program({"train", "--help"});
    EXPECT_NE(help.output.find("window.samples"), std::string::npos) << help.output;
    const ProgramResult version = run_program({"--version"});
    EXPECT_EQ(version.exit_code, 0);
    EXPECT_EQ(version.output.substr(0, 7), "accrue ") << version.output;
    const std::string instructions(cpu::title_of(cpu::best_instruction_set()));
    EXPECT_NE(version.output.find(", " + instructions + ")"), std::string::npos) << version.output;
    // The GPUs, or why there is none.
    EXPECT_TRUE(version.output.find("\ncuda:0: ") != std::string::npos ||
                version.output.find("\nno GPU: ") != std::string::npos)
        << version.output;
    EXPECT_EQ(run_program({}).exit_code, 2);
    EXPECT_EQ(run_program({"trane"}).exit_code, 2);
    EXPECT_EQ(run_program({"train", "--no-such-option"}).exit_code, 2);
}

// The program inherits the variable.
class TestInstructions {
public:
    explicit TestInstructions(const char* name) { setenv(kName, name, 1); }
    ~TestInstructions() { was_set_ ? setenv(kName, before_.c_str(), 1) : unsetenv(kName); }
    TestInstructions(const TestInstructions&) = delete;
    TestInstructions& operator=(const TestInstructions&) = delete;

private:
    static constexpr const char* kName = "ACCRUE_TEST_INSTRUCTION_SET";
    bool was_set_ = std::getenv(kName) != nullptr;
    std::string before_ = was_set_ ? std::getenv(kName) : "";
};

TEST(ProgramTest, ATestCanBeAsOnAProcessorThatHasLess) {
    const TestInstructions portable("portable");
    const ProgramResult version = run_program({"--version"});
    EXPECT_EQ(version.exit_code, 0);
    EXPECT_NE(version.output.find(", no vector instructions)"), std::string::npos) << version.output;
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    const ProgramResult refused = run_program(train_with({{"model.from", golden("llama").string()},
                                                          {"data.train", (folder / "data.safetensors").string()},
                                                          {"compute.instruction_set", "avx2"},
                                                          {"run.folder", (folder / "run").string()}}));
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_NE(refused.output.find("\"avx2\" was asked for, but this processor lacks it. It has: portable."),
              std::string::npos)
        << refused.output;
    const TestInstructions unknown("sse9");
    const ProgramResult error = run_program({"--version"});
    EXPECT_EQ(error.exit_code, 1);
    EXPECT_NE(error.output.find("ACCRUE_TEST_INSTRUCTION_SET in the environment is \"sse9\""), std::string::npos)
        << error.output;
}

}  // namespace
}  // namespace accrue::testing
