// What a device may do otherwise than the cpu does, and what a model may leave out, with the bits of an ordinary run.
#include <algorithm>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/model/families.h"

namespace accrue::testing {
namespace {

// Keeps the gradients of weights of up to three micro-batches, each in memory of its own, and adds them when the sums are
// to be complete: as a device does that adds several grains in one pass.
class AddsLater final : public Kernels {
public:
    explicit AddsLater(std::unique_ptr<Kernels> real) : real_(std::move(real)) {}
    [[nodiscard]] std::string description() const override { return real_->description(); }
    [[nodiscard]] Arena& arena() override { return real_->arena(); }
    [[nodiscard]] DeviceTraits traits() const override { return {.most_incomplete = 3}; }
    [[nodiscard]] int64_t most_kept() const { return most_kept_; }

private:
    struct Kept {
        std::vector<float> values;
        GrainRecord record;
        SumView sum;
    };

    void compute(const Operation& operation) override {
        if (const auto* backward = std::get_if<op::LinearBackward>(&operation);
            backward != nullptr && backward->of == op::ProductOf::block) {
            keep(*backward);
        } else if (std::holds_alternative<op::CompleteSums>(operation)) {
            most_kept_ = std::max(most_kept_, std::ssize(kept_));
            for (const auto& kept : kept_) {
                real_->run(op::AddGradient{.values = {kept->values.data(), kept->sum.rows, kept->sum.columns},
                                           .sum = kept->sum});
            }
            kept_.clear();
            real_->run(operation);
        } else {
            real_->run(operation);
        }
    }

    void keep(op::LinearBackward call) {
        std::vector<std::vector<SumView>> weights;
        std::vector<op::LinearSums> sums(call.sums.begin(), call.sums.end());
        for (op::LinearSums& some : sums) {
            std::vector<SumView>& views = weights.emplace_back();
            for (const SumView& sum : some.weight) {
                Kept& kept = *kept_.emplace_back(std::make_unique<Kept>());
                kept.values.assign(static_cast<size_t>(sum.elements()), 0.0F);
                kept.sum = sum;
                views.push_back({.kind = SumKind::fp32,
                                 .data = kept.values.data(),
                                 .rows = sum.rows,
                                 .columns = sum.columns,
                                 .record = &kept.record});
            }
            some.weight = views;
        }
        call.sums = sums;
        real_->run(call);
    }

    std::unique_ptr<Kernels> real_;
    std::vector<std::unique_ptr<Kept>> kept_;
    int64_t most_kept_ = 0;
};

// Has the traits of a GPU that concern the gradients of biases, and counts where they are summed.
class SumsEarly final : public Kernels {
public:
    SumsEarly(std::unique_ptr<Kernels> real, bool early) : real_(std::move(real)), early_(early) {}
    [[nodiscard]] std::string description() const override { return real_->description(); }
    [[nodiscard]] Arena& arena() override { return real_->arena(); }
    [[nodiscard]] DeviceTraits traits() const override {
        return {.has_narrow_gradients = true, .sums_biases_early = early_};
    }
    [[nodiscard]] int64_t by_writers() const { return by_writers_; }
    [[nodiscard]] int64_t by_products() const { return by_products_; }

private:
    void compute(const Operation& operation) override {
        if (const auto* product = std::get_if<op::LinearBackward>(&operation)) {
            by_products_ += std::ranges::count_if(product->sums, [](const auto& some) { return !some.bias.empty(); });
        } else if (const auto* gelu = std::get_if<op::GeluGrad>(&operation)) {
            by_writers_ += gelu->d_bias.empty() ? 0 : 1;
        } else if (const auto* norm = std::get_if<op::LayerNormBackward>(&operation)) {
            by_writers_ += norm->copy_sums.empty() ? 0 : 1;
        }
        real_->run(operation);
    }

    std::unique_ptr<Kernels> real_;
    bool early_;
    int64_t by_writers_ = 0;
    int64_t by_products_ = 0;
};

// The weights after some steps on a device, beginning with those that any run begins with.
std::string hash_after(int64_t steps, TestRun& around, Kernels& kernels) {
    Engine engine(around.inputs.settings, around.inputs.model, around.inputs.longest_sample(), kernels);
    TestRun fresh(around.inputs.settings, 1);
    engine.put_weights()(0, downloaded(*fresh.kernels, View<const float>(fresh.engine.weights.master)));
    engine.refresh_copy();
    while (engine.state.step < steps) {
        const Window window = around.loader.window_from(engine.state.position, engine.rules.window);
        EXPECT_FALSE(run_step(engine, around.loader, window, around.stop)->skipped);
    }
    return engine.weights_hash();
}

class DeviceTest : public ::testing::Test {
protected:
    DeviceTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        copy_model("llama-tied", folder_ / "model", {});
    }
    [[nodiscard]] Settings settings() const {
        Settings settings = small_settings(folder_ / "model", folder_ / "data.safetensors");
        settings.window.micro_batch_grains = 1;
        return settings;
    }

    TemporaryFolder folder_;
};

TEST_F(DeviceTest, SumsMayBeCompleteLaterThanTheCallThatAdded) {
    constexpr int64_t kSteps = 4;
    TestRun plain(settings(), 1);
    const std::string expected = plain.run(kSteps);

    TestRun around(settings(), 1);
    AddsLater later(make_kernels(device_of(around.inputs.settings.compute), around.pool, around.arena));
    EXPECT_EQ(hash_after(kSteps, around, later), expected);
    EXPECT_GT(later.most_kept(), 20) << "several micro-batches were added at once";
}

// A block has four products; dropout makes another matrix of the stream's gradient, over which nobody sums early.
TEST_F(DeviceTest, BiasesSummedWhereTheirMatrixIsWrittenHaveTheBitsOfThoseSummedLater) {
    for (const std::string dropout : {"0", "0.2"}) {
        const auto model = folder_ / ("gpt2-" + dropout);
        copy_model("gpt2", model, {{"resid_pdrop", dropout}});
        Settings gpt2 = settings();
        gpt2.model.from = model.string();
        gpt2.compute.dtype = DType::bf16;
        std::string hashes[2];
        int64_t all = 0;
        for (const bool early : {false, true}) {
            TestRun around(gpt2, 1);
            SumsEarly kernels(make_kernels(device_of(around.inputs.settings.compute), around.pool, around.arena),
                              early);
            hashes[early ? 1 : 0] = hash_after(2, around, kernels);
            all = early ? all : kernels.by_products();
            const int64_t expected = !early ? 0 : dropout == "0" ? all / 4 * 3 : all / 4;
            EXPECT_EQ(kernels.by_writers(), expected);
            EXPECT_EQ(kernels.by_products() + kernels.by_writers(), all);
        }
        EXPECT_GT(all, 0);
        EXPECT_EQ(hashes[0], hashes[1]) << "dropout " << dropout;
    }
}

// A sum of what is trained, from one micro-batch of the first window.
GradientSum sums_of(TestRun& run, Model& model) {
    const ParameterList& list = model.parameters();
    std::vector<SumTensor> tensors;
    for (const int64_t index : list.trained) {
        tensors.push_back(
            {.offset = list[index].gradient->offset, .rows = list[index].rows(), .columns = list[index].columns()});
    }
    const Window window = run.window();
    GradientSum sum(tensors, list.gradient_elements, SumKind::exact, *run.kernels);
    sum.open(window.grains(), Units(std::vector<int32_t>(tensors.size(), -30)));
    const std::vector<int64_t> grains = {0, 1};
    model.forward_backward(run.loader.load(window, grains), run.engine.weights_to_read(), sum);
    return sum;
}

TEST_F(DeviceTest, AFrozenParameterCostsNoSumAndChangesNoOther) {
    TestRun run(settings(), 2);
    const auto make = [&](const std::function<bool(const Parameter&)>& is_trained) {
        return run.inputs.model->make(
            {.longest_sample = run.inputs.longest_sample(), .dropout_seed = 0, .is_trained = is_trained}, *run.kernels);
    };
    const auto whole = make(nullptr);
    const GradientSum all = sums_of(run, *whole);
    const std::vector<std::function<bool(const Parameter&)>> rules = {
        [](const Parameter& parameter) { return parameter.name.find("embed") == std::string::npos; },
        [](const Parameter& parameter) { return parameter.name.find("norm") == std::string::npos; },
        [](const Parameter& parameter) { return parameter.name.find("v_proj") != std::string::npos; },
        [](const Parameter&) { return false; }};
    for (const auto& rule : rules) {
        const auto part = make(rule);
        const ParameterList& list = part->parameters();
        EXPECT_LT(list.gradient_elements, list.flat_elements);
        const GradientSum some = sums_of(run, *part);
        EXPECT_EQ(some.source().size(), list.gradient_elements * 8);
        EXPECT_EQ(some.ledger().loss_sum(), all.ledger().loss_sum());
        for (int64_t tensor = 0; tensor < std::ssize(list.trained); ++tensor) {
            const Parameter& parameter = list.of_gradient(tensor);
            EXPECT_TRUE(rule(parameter)) << parameter.name;
            EXPECT_EQ(numbers_of(*run.kernels, some.sum_over_tokens(tensor)),
                      numbers_of(*run.kernels, all.sum_over_tokens(list.trained[static_cast<size_t>(tensor)])))
                << parameter.name;
        }
    }
}

}  // namespace
}  // namespace accrue::testing
