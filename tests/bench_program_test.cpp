// `accrue bench` as a user runs it.

#include <numeric>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;

TEST(BenchProgramTest, WritesWhatItMeasured) {
    TemporaryFolder folder;
    const ProgramResult result = run_program({"bench", "--model", "tiny", "--sequence", "32", "--samples", "33",
                                              "--threads", "2", "--steps", "1", "--rounds", "1", "--set",
                                              "window.grain_samples=32", "--json", (folder / "result.json").string()});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("2 grain(s) of 32 sample(s)"));
    const auto json = nlohmann::json::parse(read_text(folder / "result.json"));
    for (const char* key : {"tokens_per_second", "floor_tokens_per_second", "exact_over_fp32", "resident_peak_bytes",
                            "planned_peak_bytes", "multiply_add_flops", "memory_bandwidth_bytes_per_second"}) {
        EXPECT_GT(json.at(key), 0) << key;
    }
    EXPECT_DOUBLE_EQ(json.at("fraction_of_floor"),
                     json.at("tokens_per_second").get<double>() / json.at("floor_tokens_per_second").get<double>());
    double parts = 0;
    for (const auto& [name, milliseconds] : json.at("parts_ms").items()) {
        parts += milliseconds.get<double>();
    }
    // On a GPU parts are those of a step of their own, in which each operation is waited for.
    const double step = json.at("step_ms");
    EXPECT_NEAR(parts, json.value("step_by_parts_ms", step), 1e-6 * parts);
    EXPECT_NEAR(33 * 32 / json.at("tokens_per_second").get<double>(), 1e-3 * step, 1e-6 * step);
    EXPECT_THAT(json.at("command").get<std::string>(), HasSubstr("bench --model tiny"));
    EXPECT_FALSE(json.at("commit").get<std::string>().empty());
    EXPECT_GE(json.at("machine").at("processors"), 1);
}

TEST(BenchProgramTest, NeedsNoFileForItsResult) {
    const ProgramResult result =
        run_program({"bench", "--model", "tiny", "--sequence", "16", "--samples", "1", "--threads", "1", "--steps", "1",
                     "--rounds", "1", "--sums", "bf16-stochastic"});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("fraction of floor:"));
    EXPECT_THAT(result.output, HasSubstr("with bf16-stochastic sums, then with fp32 sums"));
    EXPECT_THAT(result.output, HasSubstr("bf16-stochastic / fp32 sums:"));
}

TEST(BenchProgramTest, WrongUseIsSaidBeforeAnythingIsMeasured) {
    const ProgramResult model = run_program({"bench", "--model", "gpt5"});
    EXPECT_EQ(model.exit_code, 1);
    EXPECT_THAT(model.output, HasSubstr("there is no preset \"gpt5\"; the presets are tiny, gpt2-124m"));
    const ProgramResult sequence = run_program({"bench", "--sequence", "2000"});
    EXPECT_EQ(sequence.exit_code, 1);
    EXPECT_THAT(sequence.output, HasSubstr("--sequence 2000: gpt2-124m has only 1024 positions"));
    const ProgramResult json = run_program({"bench", "--model", "tiny", "--json", "no/such/folder/x.json"});
    EXPECT_EQ(json.exit_code, 1);
    EXPECT_THAT(json.output, HasSubstr("there is no folder"));
    for (const auto& [option, value] :
         {std::pair{"--dtype", "fp8"}, std::pair{"--sums", "double"}, std::pair{"--recompute", "all"},
          std::pair{"--samples", "0"}, std::pair{"--micro-batch", "none"}}) {
        const ProgramResult result = run_program({"bench", option, value});
        EXPECT_EQ(result.exit_code, 2);
        EXPECT_THAT(result.output, HasSubstr(option));
    }
}

}  // namespace
}  // namespace accrue::testing
