// The program as a user runs it: parity, the law through kills and stops, and where everything lies.

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>

#include "tests/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/checkpoint/checkpoint.h"
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
    // Disturbs a run with a signal at different moments until it is through.
    void train_disturbed(const std::string& run, int signal, uint64_t seed) {
        std::vector<std::string> arguments = train_with(settings(run));
        const fs::path metrics = folder_ / run / "metrics.jsonl";
        for (int64_t attempt = 0; attempt < 60; ++attempt) {
            const int64_t wait_for =
                lines_of(metrics) + static_cast<int64_t>(mix(seed, static_cast<uint64_t>(attempt)) % 5);
            last_ =
                signal_program(arguments, signal, [&] { return lines_of(metrics) >= wait_for && fs::exists(metrics); });
            if (last_.exit_code == 0) {
                return;
            }
            ASSERT_TRUE(last_.exit_code == 128 + SIGKILL || last_.exit_code == 128 + SIGTERM || last_.exit_code == 3)
                << last_.output;
            const bool is_inside =
                last_.output.find("grain(s) of the next window already added") != std::string::npos &&
                last_.output.find("with 0 grain(s)") == std::string::npos;
            stopped_inside_ += is_inside && last_.exit_code == 3 ? 1 : 0;
            arguments = {"train",
                         "--resume",
                         (folder_ / run).string(),
                         "--set",
                         cat("compute.threads=", 1 + attempt % 3),
                         "--set",
                         cat("window.micro_batch_grains=", 1)};
            if (attempt == 40) {
                break;
            }
        }
        const ProgramResult rest = run_program({"train", "--resume", (folder_ / run).string()});
        ASSERT_EQ(rest.exit_code, 0) << rest.output;
    }

    TemporaryFolder folder_;
    ProgramResult last_;
    int64_t stopped_inside_ = 0;
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
    train_undisturbed("whole");
    train_disturbed("killed", SIGKILL, 11);
    EXPECT_EQ(hash_of_run("killed"), hash_of_run("whole"));
    EXPECT_EQ(comparable_metrics(folder_ / "killed" / "metrics.jsonl", MicroBatches::compare),
              comparable_metrics(folder_ / "whole" / "metrics.jsonl", MicroBatches::compare));
}

TEST_P(ProgramLawTest, ARunStoppedInsideAWindowResumesToTheSameBits) {
    train_undisturbed("whole");
    for (uint64_t seed = 1; seed < 20 && stopped_inside_ == 0; ++seed) {
        const std::string run = cat("stopped-", seed);
        train_disturbed(run, SIGTERM, seed);
        EXPECT_EQ(hash_of_run(run), hash_of_run("whole"));
        EXPECT_EQ(comparable_metrics(folder_ / run / "metrics.jsonl", MicroBatches::compare),
                  comparable_metrics(folder_ / "whole" / "metrics.jsonl", MicroBatches::compare));
    }
    EXPECT_GT(stopped_inside_, 0) << "no stop fell inside a window";
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

TEST(ProgramTest, HelpVersionAndWrongUse) {
    EXPECT_EQ(run_program({"--help"}).exit_code, 0);
    const ProgramResult help = run_program({"train", "--help"});
    EXPECT_NE(help.output.find("window.samples"), std::string::npos) << help.output;
    const ProgramResult version = run_program({"--version"});
    EXPECT_EQ(version.exit_code, 0);
    EXPECT_EQ(version.output.substr(0, 7), "accrue ") << version.output;
    EXPECT_NE(version.output.find("AVX"), std::string::npos) << version.output;
    EXPECT_EQ(run_program({}).exit_code, 2);
    EXPECT_EQ(run_program({"trane"}).exit_code, 2);
    EXPECT_EQ(run_program({"train", "--no-such-option"}).exit_code, 2);
}

}  // namespace
}  // namespace accrue::testing
