// What is measured is real, so that only what can be counted is compared: no clock decides a test.
#include "accrue/assess/advise_measure.h"

#include <atomic>
#include <numeric>

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

constexpr int64_t kSampleTokens = 16;
constexpr int64_t kWindowSamples = 4;

// Windows of four grains of one sample with next to nothing to compute.
RunInputs idle_inputs() {
    Settings settings;
    settings.data.sequence_length = kSampleTokens;
    settings.window.samples = kWindowSamples;
    settings.window.grain_samples = 1;
    settings.window.micro_batch_grains = 1;
    settings.compute.threads = 1;
    RunInputs inputs = open_inputs(settings);
    inputs.model = known_families().shaped("tiny", {.layers = 1, .width = 32, .heads = 2, .ffn = 64}, {});
    return inputs;
}

// Full samples, whose loads are counted.
class CountedSamples final : public PassedBatches {
public:
    explicit CountedSamples(const LongestSamples& samples) : PassedBatches(samples) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        ++loads_;
        return data().load(window, grains);
    }
    [[nodiscard]] int loads() const { return loads_; }

private:
    mutable std::atomic<int> loads_{0};
};

class MeasuredWaysTest : public ::testing::Test {
protected:
    // One window of four samples that stands for one of `window_samples`.
    [[nodiscard]] MeasuredTimes measure(double window_samples, const MeasuredWorld& world,
                                        MeasuredWay::Batches batches = MeasuredWay::Batches::loaded) {
        const MeasuredWay way{.plan = Planner(inputs_.settings, inputs_.model, kSampleTokens, 1).unlimited(),
                              .samples = kWindowSamples,
                              .window_samples = window_samples,
                              .batches = batches};
        return measure_ways(inputs_, pool_, {way}, world).front();
    }

    RunInputs inputs_ = idle_inputs();
    Pool pool_{1};
    LongestSamples samples_{kSampleTokens};
    CountedSamples data_{samples_};
};

TEST_F(MeasuredWaysTest, AWindowIsCountedAndStretchedToTheOneItStandsFor) {
    const WindowTimes whole = measure(4, {.data = &data_}).fastest;
    EXPECT_EQ(whole.tokens, 4 * kSampleTokens);
    EXPECT_EQ(whole.rows, 4 * kSampleTokens);
    EXPECT_EQ(whole.synchronisation_bytes, 0);
    const WindowTimes stretched = measure(10, {.data = &data_}).fastest;
    EXPECT_EQ(stretched.tokens, 10 * kSampleTokens);
    EXPECT_EQ(stretched.rows, 10 * kSampleTokens);
    EXPECT_EQ(stretched.calls, 2.5 * whole.calls);
    EXPECT_GT(whole.calls, 4 * 20) << "four micro-batches through one block";
    for (const double seconds : whole.kernels) {
        EXPECT_GE(seconds, 0);
    }
}

TEST_F(MeasuredWaysTest, BatchesThatAreHeldAreLoadedOnce) {
    (void)measure(4, {.data = &data_}, MeasuredWay::Batches::held);
    EXPECT_EQ(data_.loads(), 4) << "one for each micro-batch of a window";
    (void)measure(4, {.data = &data_}, MeasuredWay::Batches::loaded);
    EXPECT_GE(data_.loads(), 4 + 4 * 3) << "in each of three windows at least";
}

TEST_F(MeasuredWaysTest, EveryWindowIsSynchronisedOnce) {
    int windows = 0;
    const auto all_reduce = [&windows] {
        ++windows;
        return int64_t{3} << 20;
    };
    const MeasuredTimes times = measure(4, {.data = nullptr, .synchronise = all_reduce});
    EXPECT_EQ(times.fastest.synchronisation_bytes, 3 << 20);
    EXPECT_GE(windows, 3 * std::ssize(times.tokens_per_second)) << "a window that is not measured and two that are";
}

// Samples without a target.
class SilentSamples final : public PassedBatches {
public:
    using PassedBatches::PassedBatches;
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        TokenBatch batch = data().load(window, grains);
        std::fill(batch.targets.begin(), batch.targets.end(), -1);
        return batch;
    }
    [[nodiscard]] int64_t counted_tokens(const Window& /*window*/) const override { return 0; }
};

TEST_F(MeasuredWaysTest, DataThatCountsNoTokenIsRefused) {
    const SilentSamples silent(samples_);
    try {
        (void)measure(4, {.data = &silent});
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()),
                  "20 windows of 4 samples were measured, and none counts a token. Check the labels of the data.");
    }
}

}  // namespace
}  // namespace accrue
