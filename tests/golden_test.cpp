// Parity with Hugging Face transformers, computed there in float64 (tests/golden/README.md).

#include <cmath>

#include "tests/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/kernels/gpus.h"
#include "accrue/tensor/safetensors.h"
#include "accrue/train/settings_words.h"

namespace accrue::testing {
namespace {

struct Case {
    std::string model;
    DeviceKind device;
    DType dtype;
};

void PrintTo(const Case& value, std::ostream* out) {
    *out << value.model << ", " << word_of(value.device) << ", " << name_of(value.dtype);
}

// fp32: rounding of sums of a few hundred products. bf16: eight binary digits per stored value. fp16: eleven, and fewer for
// what is very small.
struct Tolerances {
    double sample_loss;
    double gradient;
    double weights;
    double step_loss;
    double step_norm;
};
constexpr Tolerances kFp32 = {
    .sample_loss = 1e-6, .gradient = 1e-5, .weights = 1e-3, .step_loss = 1e-5, .step_norm = 1e-4};
constexpr Tolerances kBf16 = {
    .sample_loss = 2e-3, .gradient = 5e-2, .weights = 1, .step_loss = 2e-3, .step_norm = 5e-2};
constexpr Tolerances kFp16 = {
    .sample_loss = 3e-4, .gradient = 1e-2, .weights = 1, .step_loss = 1e-3, .step_norm = 2e-2};

Tolerances tolerances_of(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return kBf16;
        case DType::fp16:
            return kFp16;
        default:
            return kFp32;
    }
}

double relative_l2(const std::vector<double>& got, const std::vector<float>& expected) {
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        difference += std::pow(got[i] - static_cast<double>(expected[i]), 2);
        norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    return std::sqrt(difference / norm);
}

Settings settings_of(const Case& which, const nlohmann::json& expected, int64_t grain_samples,
                     int64_t micro_batch_grains) {
    Settings settings = small_settings(golden(which.model), golden(which.model) / "batch.safetensors");
    const auto& hyper = expected.at("hyperparameters");
    settings.data.order = SampleOrder::Kind::sequential;
    settings.window = {.samples = expected.at("window_sequences"),
                       .grain_samples = grain_samples,
                       .micro_batch_grains = micro_batch_grains};
    settings.optimizer.rate = hyper.at("lr");
    settings.optimizer.beta1 = hyper.at("beta1");
    settings.optimizer.beta2 = hyper.at("beta2");
    settings.optimizer.epsilon = hyper.at("eps");
    settings.optimizer.weight_decay = hyper.at("weight_decay");
    settings.optimizer.clip_norm = hyper.at("clip_norm");
    settings.schedule.steps = expected.at("optimizer_steps");
    settings.compute.device = which.device;
    settings.compute.dtype = which.dtype;
    return settings;
}

class GoldenTest : public ::testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        const Gpus gpus = gpus_of_machine();
        if (GetParam().device == DeviceKind::cuda && gpus.found.empty()) {
            GTEST_SKIP() << gpus.why_none;
        }
    }

    [[nodiscard]] nlohmann::json expected() const {
        return nlohmann::json::parse(read_text(golden(GetParam().model) / "expected.json"));
    }
    [[nodiscard]] Tolerances tolerances() const { return tolerances_of(GetParam().dtype); }
};

TEST_P(GoldenTest, EachSampleHasItsLossAndCount) {
    const auto json = expected();
    TestRun run(settings_of(GetParam(), json, 1, 1), 2);
    const auto& losses = json.at("first_window").at("sample_loss_sum");
    const auto& tokens = json.at("first_window").at("sample_tokens");
    (void)run.step();
    const GrainLedger& ledger = run.engine.sum.ledger();  // grains of one sample
    ASSERT_EQ(ledger.grains(), static_cast<int64_t>(losses.size()));
    for (int64_t sample = 0; sample < ledger.grains(); ++sample) {
        const double loss = losses[static_cast<size_t>(sample)];
        EXPECT_EQ(ledger.grain(sample).counted_tokens, tokens[static_cast<size_t>(sample)]);
        EXPECT_NEAR(ledger.grain(sample).loss_sum, loss, tolerances().sample_loss * loss) << "sample " << sample;
    }
}

TEST_P(GoldenTest, GradientsStepsAndWeightsAgreeHoweverTheWindowIsCut) {
    const auto json = expected();
    const SafetensorsFile gradients(golden(GetParam().model) / "grads.safetensors");
    const SafetensorsFile after(golden(GetParam().model) / "after.safetensors");
    for (const int64_t grain_samples : {1, 3, 8}) {
        for (const int64_t micro_batch_grains : {1, 2, 8}) {
            SCOPED_TRACE(cat("grains of ", grain_samples, " samples, ", micro_batch_grains, " a micro-batch"));
            TestRun run(settings_of(GetParam(), json, grain_samples, micro_batch_grains), 2);
            const ParameterList& parameters = run.engine.model->parameters();
            for (const auto& step : json.at("steps")) {
                const auto report = run.step();
                ASSERT_TRUE(report && report->loss && report->grad_norm);
                EXPECT_EQ(report->tokens, step.at("tokens"));
                const double loss = step.at("loss");
                const double norm = step.at("grad_norm");
                EXPECT_NEAR(*report->loss, loss, tolerances().step_loss * loss);
                EXPECT_NEAR(*report->grad_norm, norm, tolerances().step_norm * norm);
                if (report->step > 1) {
                    continue;
                }
                for (int64_t p = 0; p < parameters.count(); ++p) {
                    std::vector<float> wanted(static_cast<size_t>(parameters[p].elements()));
                    gradients.read_floats(parameters[p].name, wanted);
                    EXPECT_LT(relative_l2(run.mean_gradient(p), wanted), tolerances().gradient) << parameters[p].name;
                }
            }
            for (int64_t p = 0; p < parameters.count(); ++p) {
                std::vector<float> wanted(static_cast<size_t>(parameters[p].elements()));
                after.read_floats(parameters[p].name, wanted);
                const std::vector<float> got = run.weights_of(parameters[p]);
                EXPECT_LT(relative_l2({got.begin(), got.end()}, wanted), tolerances().weights) << parameters[p].name;
            }
        }
    }
}

std::vector<Case> all_cases() {
    std::vector<Case> cases;
    for (const char* model : {"gpt2", "llama", "llama-tied", "llama3-rope", "qwen2", "qwen3"}) {
        for (const DeviceKind device : {DeviceKind::reference, DeviceKind::cpu, DeviceKind::cuda}) {
            cases.push_back({.model = model, .device = device, .dtype = DType::fp32});
            cases.push_back({.model = model, .device = device, .dtype = DType::bf16});
            if (device != DeviceKind::cpu) {
                cases.push_back({.model = model, .device = device, .dtype = DType::fp16});
            }
        }
    }
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest, ::testing::ValuesIn(all_cases()), [](const auto& info) {
    std::string name = cat(info.param.model, "_", word_of(info.param.device), "_", name_of(info.param.dtype));
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace accrue::testing
