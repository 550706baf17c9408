// Number formats for small memory keep the law as far as they can: same bits for any threads, any cut (in grain order)
// and any resume; and they train nearly as well.

#include <algorithm>
#include <cmath>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/state.h"

namespace accrue::testing {
namespace {

struct Formats {
    SumKind sums;
    MomentFormat moments;
    OptimizerKind optimizer = OptimizerKind::adamw;
};

void PrintTo(const Formats& formats, std::ostream* out) {
    *out << word_of(formats.sums) << ", " << word_of(formats.moments) << ", " << word_of(formats.optimizer);
}

constexpr int64_t kFormatSteps = 12;

class FormatsTest : public ::testing::TestWithParam<Formats> {
protected:
    FormatsTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] static Settings with_formats(Settings settings, const Formats& formats) {
        settings.compute.sums = formats.sums;
        settings.optimizer.moments = formats.moments;
        settings.optimizer.name = formats.optimizer;
        return settings;
    }
    // A tied embedding has two sources, and with it grains of a micro-batch hold back rows for each other.
    [[nodiscard]] Settings settings(const std::string& model, DType dtype) const {
        Settings settings = small_settings(golden(model), folder_ / "data.safetensors");
        settings.compute.dtype = dtype;
        return with_formats(settings, GetParam());
    }

    TemporaryFolder folder_;
};

TEST_P(FormatsTest, ThreadsAndMicroBatchesKeepTheBits) {
    for (const auto& [model, dtype] : {std::pair{"qwen2", DType::bf16}, std::pair{"gpt2", DType::fp32}}) {
        const auto run_with = [&, m = model, d = dtype](int threads, int64_t grains) {
            Settings cut_otherwise = settings(m, d);
            cut_otherwise.window.micro_batch_grains = grains;
            return TestRun(cut_otherwise, threads).run(kFormatSteps);
        };
        const std::string expected = run_with(1, 1);
        EXPECT_EQ(run_with(2, 1), expected) << model;
        EXPECT_EQ(run_with(2, 2), expected) << model;
        EXPECT_EQ(run_with(3, 100), expected) << model;
        EXPECT_NE(
            TestRun(with_formats(settings(model, dtype), {SumKind::exact, MomentFormat::fp32, GetParam().optimizer}), 1)
                .run(kFormatSteps),
            expected)
            << model;
    }
}

TEST_P(FormatsTest, ARunThatIsStoppedInsideAWindowResumesToTheSameBits) {
    const Settings here = settings("qwen2", DType::bf16);
    TestRun stopped(here, 2);
    (void)stopped.run(3);
    ASSERT_FALSE(run_step(stopped.engine, StoppingLoader(stopped, 1), stopped.window(), stopped.stop).has_value());
    const auto missing = stopped.engine.sum.ledger().missing();
    ASSERT_FALSE(missing.empty());
    ASSERT_LT(static_cast<int64_t>(missing.size()), stopped.engine.sum.ledger().grains());
    const std::string definition = definition_of(stopped.inputs, stopped.engine.model->parameters());
    save_state(stopped.engine, definition, folder_ / "checkpoints");

    TestRun resumed(here, 1);
    load_state(resumed.engine, definition, checkpoint_path(folder_ / "checkpoints", 3));
    EXPECT_TRUE(bytes_of(resumed.engine.sum.source()) == bytes_of(stopped.engine.sum.source()));
    EXPECT_EQ(resumed.run(kFormatSteps), TestRun(here, 2).run(kFormatSteps));
}

TEST_P(FormatsTest, ACheckpointOfOtherFormatsIsRefused) {
    TestRun run(settings("qwen2", DType::bf16), 1);
    (void)run.run(1);
    const auto definition = [](TestRun& of) { return definition_of(of.inputs, of.engine.model->parameters()); };
    save_state(run.engine, definition(run), folder_ / "checkpoints");
    const auto checkpoint = checkpoint_path(folder_ / "checkpoints", 1);
    const auto refusal = [&](const Formats& formats) {
        TestRun other(with_formats(settings("qwen2", DType::bf16), formats), 1);
        try {
            load_state(other.engine, definition(other), checkpoint);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    Formats formats = GetParam();
    EXPECT_EQ(refusal(formats), "no error");
    formats.sums = formats.sums == SumKind::fp32 ? SumKind::bf16 : SumKind::fp32;
    EXPECT_THAT(refusal(formats), ::testing::HasSubstr(cat("compute.sums = \"", word_of(GetParam().sums),
                                                           "\", this run has \"", word_of(formats.sums), "\"")));
    formats = GetParam();
    formats.moments = formats.moments == MomentFormat::fp32 ? MomentFormat::eight_bits : MomentFormat::fp32;
    EXPECT_THAT(refusal(formats), ::testing::HasSubstr(cat("optimizer.moments = \"", word_of(GetParam().moments),
                                                           "\", this run has \"", word_of(formats.moments), "\"")));
}

std::string name_of(const ::testing::TestParamInfo<Formats>& info) {
    std::string name =
        cat(word_of(info.param.sums), "_", word_of(info.param.moments), "_", word_of(info.param.optimizer));
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, FormatsTest,
                         ::testing::Values(Formats{SumKind::bf16, MomentFormat::fp32},
                                           Formats{SumKind::bf16_stochastic, MomentFormat::fp32},
                                           Formats{SumKind::bf16_kahan, MomentFormat::fp32},
                                           Formats{SumKind::exact, MomentFormat::eight_bits},
                                           Formats{SumKind::bf16, MomentFormat::eight_bits},
                                           Formats{SumKind::exact, MomentFormat::eight_bits, OptimizerKind::sgd}),
                         name_of);

// The mean gradient of one window of 30 grains against exact sums: the formats in the order of what they lose.
TEST(FormatErrorsTest, SumsOfMoreBitsAreCloser) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    Settings settings = small_settings(golden("llama"), folder / "data.safetensors");
    settings.window.samples = 30;
    settings.window.grain_samples = 1;
    settings.optimizer.rate = 0;
    const auto gradient_of = [&](SumKind sums) {
        settings.compute.sums = sums;
        TestRun run(settings, 2);
        (void)run.step();
        std::vector<double> all;
        for (int64_t parameter = 0; parameter < run.engine.model->parameters().count(); ++parameter) {
            const auto part = run.mean_gradient(parameter);
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    };
    const std::vector<double> exact = gradient_of(SumKind::exact);
    const auto error_of = [&](SumKind sums) {
        const std::vector<double> got = gradient_of(sums);
        double difference = 0;
        double norm = 0;
        for (size_t i = 0; i < exact.size(); ++i) {
            difference += std::pow(got[i] - exact[i], 2);
            norm += std::pow(exact[i], 2);
        }
        return std::sqrt(difference / norm);
    };
    const double fp32 = error_of(SumKind::fp32);
    const double kahan = error_of(SumKind::bf16_kahan);
    const double nearest = error_of(SumKind::bf16);
    EXPECT_LT(fp32, 1e-6);
    EXPECT_GT(kahan, fp32);
    EXPECT_LT(kahan, 1e-4);
    EXPECT_GT(nearest, 10 * kahan);
    EXPECT_LT(nearest, 3e-2);
    const double stochastic = error_of(SumKind::bf16_stochastic);
    EXPECT_GT(stochastic, 10 * kahan);
    EXPECT_LT(stochastic, 5e-2);
}

// Some words over and over: after 100 steps the loss with small formats is that with exact sums and fp32 moments.
TEST(FormatErrorsTest, SmallFormatsLearnAsWell) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    const auto loss_with = [&](SumKind sums, MomentFormat moments) {
        Settings settings = small_settings(golden("llama"), folder / "data.safetensors");
        settings.optimizer.rate = 2e-3;
        settings.compute.sums = sums;
        settings.optimizer.moments = moments;
        TestRun run(settings, 2);
        double sum = 0;
        for (int64_t step = 0; step < 100; ++step) {
            const auto report = run.step();
            sum += step >= 80 ? *report->loss / 20 : 0;
        }
        return sum;
    };
    const double loss = loss_with(SumKind::exact, MomentFormat::fp32);
    EXPECT_LT(loss, 4.0) << "random words of 101: 4.6 before";
    EXPECT_NEAR(loss_with(SumKind::exact, MomentFormat::eight_bits), loss, 0.01 * loss);
    EXPECT_NEAR(loss_with(SumKind::bf16_stochastic, MomentFormat::eight_bits), loss, 0.01 * loss);
    EXPECT_NEAR(loss_with(SumKind::bf16_kahan, MomentFormat::eight_bits), loss, 0.01 * loss);
}

}  // namespace
}  // namespace accrue::testing
