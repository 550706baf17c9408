// `accrue verify` as a user runs it, on the real program and on programs with a deliberate mistake.

#include <cmath>
#include <numeric>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/assess/mean_of_means.h"
#include "accrue/base/file.h"
#include "accrue/base/test_places.h"
#include "accrue/tensor/safetensors.h"

namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// Windows of 7 samples of different lengths, in grains of 2: four grains, the last one short.
class VerifyTest : public ::testing::Test {
protected:
    VerifyTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] std::vector<std::string> job(const std::vector<std::string>& more = {},
                                               const std::string& model = "llama") const {
        std::vector<std::string> arguments;
        std::vector<std::string> settings = {"model.from=" + golden(model).string(),
                                             "data.train=" + (folder_ / "data.safetensors").string(),
                                             "window.samples=7",
                                             "window.grain_samples=2",
                                             "compute.dtype=fp32",
                                             "compute.threads=2",
                                             "optimizer.rate=0.01",
                                             "schedule.warmup_steps=0",
                                             "schedule.steps=6",
                                             "run.checkpoint_steps=2",
                                             "run.keep_checkpoints=0"};
        settings.insert(settings.end(), more.begin(), more.end());
        for (const std::string& setting : settings) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return arguments;
    }
    [[nodiscard]] static ProgramResult verify(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "verify");
        return run_program(arguments);
    }
    [[nodiscard]] static Json verify_json(std::vector<std::string> arguments, int exit_code = 0) {
        arguments.emplace_back("--json");
        const ProgramResult result = verify(std::move(arguments));
        EXPECT_EQ(result.exit_code, exit_code) << result.output;
        return Json::parse(result.output);
    }
    [[nodiscard]] ProgramResult verify_with_mistake(const std::string& mistake) const {
        std::vector<std::string> arguments = {mistake, "verify"};
        const auto settings = job();
        arguments.insert(arguments.end(), settings.begin(), settings.end());
        return run_program_at(program_under_test(ACCRUE_FAULTY_PROGRAM), arguments);
    }
    static std::vector<std::string> names_of(const Json& cases, const std::string& outcome) {
        std::vector<std::string> names;
        for (const Json& result : cases) {
            if (result.at("outcome") == outcome) {
                names.push_back(result.at("name"));
            }
        }
        return names;
    }

    TemporaryFolder folder_;
};

TEST_F(VerifyTest, EveryWayOfComputingAWindowGivesTheSameBits) {
    for (const char* model : {"llama", "gpt2"}) {
        for (const char* dtype : {"fp32", "bf16"}) {
            const Json json = verify_json(job({cat("compute.dtype=", dtype)}, model));
            EXPECT_TRUE(json.at("law_holds"));
            const auto same = names_of(json.at("cases"), "same bits");
            EXPECT_EQ(same.size() + 1, json.at("cases").size()) << json.at("cases").dump(1);
            for (const char* way :
                 {"cut in 2 micro-batches", "one grain at a time, 4 micro-batches", "grains in shuffled order",
                  "2 workers, their sums added", "3 workers, their sums added", "stopped half way, saved, resumed",
                  "recompute cheap", "recompute block"}) {
                EXPECT_THAT(same, ::testing::Contains(way));
            }
            const std::vector<std::string> of_device =
                usual_device().kind == DeviceKind::cuda
                    ? std::vector<std::string>{"without graphs", "each grain's gradients added at once",
                                               "gradients of 2 grains added together"}
                    : std::vector<std::string>{"1 thread", "3 threads"};
            for (const std::string& way : of_device) {
                EXPECT_THAT(same, ::testing::Contains(way));
            }
            for (const Json& result : json.at("cases")) {
                EXPECT_EQ(result.at("sums_hash"), json.at("cases")[0].at("sums_hash"));
                EXPECT_EQ(result.at("state_hash"), json.at("cases")[0].at("state_hash"));
            }
            EXPECT_EQ(json.at("neighbours").at("samples"), 7);
            EXPECT_EQ(json.at("neighbours").at("changed"), 0);
        }
    }
}

// Sums of its own, probes and resumes must take the loss scale that a run has.
TEST_F(VerifyTest, SoItIsInFp16WithALossScale) {
    const Json json = verify_json(job({"compute.dtype=fp16", "compute.device=reference", "compute.loss_scale=256"}));
    EXPECT_TRUE(json.at("law_holds"));
    EXPECT_EQ(json.at("window").at("skip_reason"), "");
    EXPECT_EQ(names_of(json.at("cases"), "same bits").size() + 1, json.at("cases").size()) << json.at("cases").dump(1);
    for (const Json& kind : json.at("kinds_of_sums")) {
        EXPECT_LT(kind.at("gradient_error"), 0.05) << kind;
    }
}

TEST_F(VerifyTest, OtherSumsAreJudgedByWhatTheyPromise) {
    const Json json = verify_json(job({"compute.sums=fp32"}));
    EXPECT_TRUE(json.at("law_holds"));
    EXPECT_FALSE(names_of(json.at("cases"), "differs, not promised").empty()) << "shuffled grains";
    EXPECT_EQ(names_of(json.at("cases"), "not tried").size(), 2U) << "workers";
    ASSERT_GE(json.at("kinds_of_sums").size(), 2U);
    for (const Json& kind : json.at("kinds_of_sums")) {
        EXPECT_TRUE(kind.at("repeats")) << kind;
        if (kind.at("kind") == "exact") {
            EXPECT_EQ(kind.at("gradient_error"), 0);
        } else {
            EXPECT_GT(kind.at("gradient_error"), 0) << kind;
            EXPECT_LT(kind.at("gradient_error"), kind.at("kind") == "fp32" ? 1e-6 : 0.05) << kind;
        }
    }
    EXPECT_THAT(verify(job({"compute.sums=fp32"})).output, HasSubstr("fp32 sums promise it in grain order"));
}

TEST_F(VerifyTest, TellsWhatAMeanOfMeansWouldHaveBeen) {
    const Json ragged = verify_json(job());
    ASSERT_FALSE(ragged.at("mean_of_means").empty());
    for (const Json& mean : ragged.at("mean_of_means")) {
        int64_t tokens = 0;
        for (const Json& count : mean.at("tokens")) {
            tokens += count.get<int64_t>();
        }
        EXPECT_EQ(tokens, ragged.at("window").at("tokens"));
        EXPECT_GT(mean.at("gradient_error"), 1e-3) << mean;
        EXPECT_NE(mean.at("loss_error"), 0) << mean;
    }
}

TEST_F(VerifyTest, AMeanOfMeansIsRightWhereAllMicroBatchesCountTheSame) {
    std::vector<int64_t> ids(static_cast<size_t>(8 * 12));
    std::iota(ids.begin(), ids.end(), 1);
    write_safetensors(folder_ / "even.safetensors", {{"input_ids", "I64", {8, 12}, std::as_bytes(std::span(ids))}});
    const Json json = verify_json(job({"data.train=" + (folder_ / "even.safetensors").string(), "window.samples=8"}));
    ASSERT_FALSE(json.at("mean_of_means").empty());
    for (const Json& mean : json.at("mean_of_means")) {
        const bool is_uneven = mean.at("micro_batches") == 3;
        EXPECT_EQ(mean.at("gradient_error") == 0, !is_uneven) << mean;
    }
}

// The same by hand: the mean gradient of each micro-batch, then their mean, against the window's.
TEST_F(VerifyTest, TheErrorOfAMeanOfMeansIsWhatAveragingGives) {
    const Settings settings = small_settings(golden("llama"), folder_ / "data.safetensors");
    TestRun run(settings, 2);
    (void)run.step();
    const int64_t parameters = run.engine.model->parameters().count();
    std::vector<std::vector<double>> wanted;
    for (int64_t parameter = 0; parameter < parameters; ++parameter) {
        wanted.push_back(run.mean_gradient(parameter));
    }
    TestRun again(settings, 2);
    const Window window = again.window();
    std::vector<std::vector<double>> got(wanted.size());
    for (int64_t grain = 0; grain < window.grains(); ++grain) {
        again.engine.sum.open(window.grains(), run.engine.sum.units());
        again.engine.model->forward_backward(again.loader.load(window, std::span(&grain, 1)),
                                             again.engine.weights_to_read(), again.engine.sum);
        for (int64_t parameter = 0; parameter < parameters; ++parameter) {
            const auto mean = again.mean_gradient(parameter);
            auto& sum = got[static_cast<size_t>(parameter)];
            sum.resize(mean.size());
            for (size_t i = 0; i < mean.size(); ++i) {
                sum[i] += mean[i] / static_cast<double>(window.grains());
            }
        }
    }
    double apart = 0;
    double squares = 0;
    for (size_t parameter = 0; parameter < wanted.size(); ++parameter) {
        for (size_t i = 0; i < wanted[parameter].size(); ++i) {
            apart += std::pow(got[parameter][i] - wanted[parameter][i], 2);
            squares += std::pow(wanted[parameter][i], 2);
        }
    }
    const RunInputs inputs = open_inputs(settings);
    WindowLab lab(inputs, {}, real_program());
    const MeanOfMeans mean = means_of_means(lab, {settings.window.grain_samples}, lab.by_step({})).front();
    // Samples instead of grains, and fp32 instead of double.
    EXPECT_NEAR(mean.gradient_error, std::sqrt(apart / squares), 1e-4 * mean.gradient_error);
}

TEST_F(VerifyTest, AWindowThatIsNotFiniteIsSkippedInEveryWay) {
    copy_model("gpt2", folder_ / "model", {}, [](const std::string& name, std::vector<float>& values) {
        if (name == "transformer.wpe.weight") {
            std::fill(values.begin() + 22 * 32, values.begin() + 23 * 32, 3e38F);
        }
    });
    const ProgramResult result = verify(job({"model.from=" + (folder_ / "model").string()}));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("This window changes no weights"), HasSubstr("The law holds")));
}

TEST_F(VerifyTest, TakesTheWindowThatIsAskedFor) {
    std::vector<std::string> train = {"train", "--set", "run.folder=" + (folder_ / "run").string()};
    const auto settings = job();
    train.insert(train.end(), settings.begin(), settings.end());
    ASSERT_EQ(run_program(train).exit_code, 0);
    const Json next = verify_json({(folder_ / "run").string()});
    EXPECT_EQ(next.at("window").at("step"), 7);
    EXPECT_TRUE(next.at("window").at("from_checkpoint"));
    EXPECT_TRUE(next.at("law_holds"));
    auto third = job();
    third.insert(third.end(), {"--step", "3", "--grains", "2"});
    const Json json = verify_json(third);
    EXPECT_EQ(json.at("window").at("step"), 3);
    EXPECT_EQ(json.at("window").at("grains"), 2);
}

TEST_F(VerifyTest, WindowsOfOneGrainAndOneSampleAreVerifiedToo) {
    EXPECT_TRUE(verify_json(job({"window.samples=1"})).at("law_holds"));
}

TEST_F(VerifyTest, SaysItInPlainWordsWithin80Columns) {
    const ProgramResult result = verify(job());
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.output, AllOf(HasSubstr("The law holds"), HasSubstr("a mean of means"), HasSubstr("same bits")));
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) {
        EXPECT_TRUE(line.size() <= 80 || line.starts_with("accrue verify: ")) << line;
    }
}

TEST_F(VerifyTest, BadInputIsAnErrorThatNamesIt) {
    EXPECT_THAT(verify({"nothing.toml"}).output, HasSubstr("nothing.toml"));
    EXPECT_EQ(verify({"nothing.toml"}).exit_code, 1);
    EXPECT_THAT(verify({folder_.path().string()}).output, HasSubstr("holds no run.toml"));
    EXPECT_EQ(verify({"--runs", "one"}).exit_code, 2);
    EXPECT_EQ(verify({"--step", "0"}).exit_code, 2);
    EXPECT_THAT(verify({"--runs", "no-run", "neither"}).output, HasSubstr("no-run holds no run.toml"));
}

TEST_F(VerifyTest, FindsNothingInAProgramWithoutAMistake) {
    const ProgramResult result = verify_with_mistake("none");
    EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(VerifyTest, FindsALossThatIsDividedByTheNumberOfMicroBatches) {
    const ProgramResult result = verify_with_mistake("divides-the-loss");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("The law does NOT hold"),
                                     HasSubstr("the gradient is divided by the number of micro-batches"),
                                     HasSubstr("cut in 2 micro-batches: 2 micro-batch(es): 0.5 times")));
}

TEST_F(VerifyTest, FindsAnUpdateThatIsDividedByTheNumberOfMicroBatches) {
    const ProgramResult result = verify_with_mistake("divides-the-update");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("the update is divided by the number of micro-batches"),
                                     Not(HasSubstr("the gradient is divided"))));
}

TEST_F(VerifyTest, FindsAGrainThatIsDropped) {
    const ProgramResult result = verify_with_mistake("drops-the-last-grain");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_THAT(result.output, HasSubstr("grain 3 is missing from the sum"));
}

TEST_F(VerifyTest, FindsStatisticsOverTheBatch) {
    const ProgramResult result = verify_with_mistake("normalises-over-the-batch");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("a grain changes with the grains that are computed beside it"),
                      HasSubstr("samples change with their neighbours: something is computed over the batch")));
}

}  // namespace
}  // namespace accrue::testing
