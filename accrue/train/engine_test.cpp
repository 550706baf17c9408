#include "accrue/train/engine.h"

#include <gtest/gtest.h>

#include "accrue/kernels/device.h"
#include "accrue/model/families.h"

namespace accrue {
namespace {

constexpr int64_t kLongest = 32;

class EngineTest : public testing::Test {
protected:
    Engine engine(DType dtype) {
        Settings settings;
        settings.window.grain_samples = 1;
        settings.compute.dtype = dtype;
        return {settings, known_families().preset("tiny"), kLongest, *kernels_};
    }

    Pool pool_{1};
    DeviceChoice device_ = device_of({});
    Arena arena_{make_backing(device_, int64_t{256} << 20)};
    std::unique_ptr<Kernels> kernels_ = make_kernels(device_, pool_, arena_);
    Choices converted_{.blocks = {}, .weight_copy = Choices::WeightCopy::converted_per_tile};
};

TEST_F(EngineTest, ChoosingGivesTheCopyOfTheWeightsBackAndTakesItAgain) {
    Engine engine = this->engine(DType::bf16);
    const int64_t with_copy = arena_.bytes_in_use();
    const int64_t elements = engine.model->parameters().flat_elements;
    engine.choose(converted_);
    EXPECT_EQ(with_copy - arena_.bytes_in_use(), (elements * 2 + 63) / 64 * 64);
    EXPECT_EQ(engine.weights_to_read().compute.dtype, DType::fp32);

    std::vector<float> weights(static_cast<size_t>(elements));
    for (size_t i = 0; i < weights.size(); ++i) {
        weights[i] = 1.0F / static_cast<float>(i + 1);
    }
    engine.put_weights()(0, weights);
    engine.choose({});
    EXPECT_EQ(arena_.bytes_in_use(), with_copy);
    const std::vector<Bf16> copy = downloaded(*kernels_, engine.weights_to_read().compute.as<Bf16>());
    for (size_t i = 0; i < weights.size(); ++i) {
        ASSERT_EQ(copy[i].bits, Bf16(weights[i]).bits) << i;
    }
}

TEST_F(EngineTest, InFp32ThereIsNoCopyToGiveBack) {
    Engine engine = this->engine(DType::fp32);
    const int64_t before = arena_.bytes_in_use();
    engine.choose(converted_);
    EXPECT_EQ(arena_.bytes_in_use(), before);
}

TEST_F(EngineTest, AChoiceThatDoesNotFitTheModelLeavesAllAsItWas) {
    Engine engine = this->engine(DType::bf16);
    Choices wrong = converted_;
    wrong.blocks = {Recompute::block};
    EXPECT_THROW(engine.choose(wrong), Error);
    EXPECT_EQ(engine.model->choices(), Choices{});
    EXPECT_EQ(engine.weights_to_read().compute.dtype, DType::bf16);
}

TEST_F(EngineTest, TheSettingSaysWhatEveryLayerRecomputes) {
    Settings settings;
    EXPECT_EQ(choices_of(settings, 3), Choices{});
    settings.compute.recompute = Recompute::block;
    EXPECT_EQ(choices_of(settings, 3).blocks, std::vector<Recompute>(3, Recompute::block));
}

}  // namespace
}  // namespace accrue
