// Bottlenecks that are planted are named. The planted waits are many times what these small jobs compute, so that a busy
// machine cannot hide them.
#include "accrue/assess/advise.h"

#include <chrono>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

MemoryBound plenty() {
    return {.bytes = int64_t{1} << 40, .reason = "plenty", .address_bytes = std::numeric_limits<int64_t>::max()};
}

// Windows of four grains of one sample, through as few blocks as are asked for.
RunInputs small_inputs(int64_t sequence_length, int64_t layers, const std::string& memory = "auto") {
    Settings settings;
    settings.data.sequence_length = sequence_length;
    settings.window.samples = 4;
    settings.window.grain_samples = 1;
    settings.window.micro_batch_grains = 1;
    settings.compute.threads = 1;
    settings.compute.memory = memory;
    RunInputs inputs = open_inputs(settings);
    inputs.model.layers = layers;
    return inputs;
}

// The same with next to nothing to compute.
RunInputs idle_inputs() {
    RunInputs inputs = small_inputs(16, 1);
    inputs.model.width = 32;
    inputs.model.heads = 2;
    inputs.model.key_heads = 2;
    inputs.model.head_size = 16;
    inputs.model.ffn = 64;
    return inputs;
}

// Full samples, each load of which takes its time.
class SlowLoader final : public BatchSource {
public:
    SlowLoader(int64_t sample_tokens, std::chrono::milliseconds pause) : samples_(sample_tokens), pause_(pause) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        std::this_thread::sleep_for(pause_);
        return samples_.load(window, grains);
    }

private:
    LongestSamples samples_;
    std::chrono::milliseconds pause_;
};

// Takes three times as long as what was computed since it was called before, but a second at most.
class ThrottledAllReduce {
public:
    int64_t operator()() {
        constexpr std::chrono::nanoseconds kLongest = std::chrono::seconds(1);
        std::this_thread::sleep_for(std::min(kLongest, 3 * (Clock::now() - before_)));
        before_ = Clock::now();
        return int64_t{3} << 20;
    }

private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point before_ = Clock::now();
};

// Of the process, in bytes.
int64_t smallest_plan_of(const RunInputs& inputs) {
    const ProcessBase base = ProcessBase::measure();
    Planner planner(inputs.settings, inputs.model, inputs.longest_sample(), 1);
    return process_bytes(base, planner, planner.frontier(Rates::typical(inputs.settings, 1)).back());
}

class AdviseTest : public ::testing::Test {
protected:
    // What other tests of this process held is no concern of the next.
    AdviseTest() { std::ofstream("/proc/self/clear_refs") << 5; }
};

// Each line can be read on a narrow screen.
void expect_narrow(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(line.size(), 80U) << line;
    }
}

// Measured again, a few times at most, where others took the processor meanwhile: arithmetic then seems slower alone than
// in the step.
Advice undisturbed_advice(const RunInputs& inputs) {
    Advice advice = find_advice(inputs, plenty(), {});
    for (int more = 4; more > 0 && advice.reached_flops > advice.ceilings.flops; --more) {
        advice = find_advice(inputs, plenty(), {});
    }
    return advice;
}

TEST_F(AdviseTest, AStepThatOnlyComputesIsBoundByCompute) {
    const Advice advice = undisturbed_advice(small_inputs(256, 1));
    EXPECT_EQ(advice.judgement.bound, Bound::compute);
    EXPECT_GT(advice.judgement.share, 0.5);
    EXPECT_NEAR(advice.times.tokens, 4 * 256, 1);
    EXPECT_GT(advice.reached_flops, 0);
    EXPECT_LT(advice.reached_flops, 1.1 * advice.ceilings.flops);
    // The change that was tried costs no bit, and was the best of its kind.
    ASSERT_TRUE(advice.trial);
    EXPECT_EQ(advice.trial->change.result, Change::Result::same);
    for (const Change& change : advice.changes) {
        EXPECT_TRUE(change.result == Change::Result::another ||
                    change.tokens_per_second <= advice.trial->change.tokens_per_second)
            << change.text;
    }
    EXPECT_GT(advice.trial->tokens_per_second, 0);
    ASSERT_TRUE(advice.whole);
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by compute: arithmetic takes "));
    EXPECT_THAT(text, HasSubstr("window.micro_batch_grains = 2"));
    EXPECT_THAT(text, HasSubstr("compute.recompute = \"block\""));
    EXPECT_THAT(text, HasSubstr("give one with --run FOLDER"));
    expect_narrow(text);
}

TEST_F(AdviseTest, ASlowLoaderIsNamed) {
    const SlowLoader loader(16, std::chrono::milliseconds(50));
    const Advice advice = find_advice(idle_inputs(), plenty(), {.noise = {}, .world = {.data = &loader}});
    EXPECT_EQ(advice.judgement.bound, Bound::data);
    EXPECT_GT(advice.judgement.share, 0.3);
    ASSERT_TRUE(advice.trial);
    EXPECT_EQ(advice.trial->change.text, "batches already in memory");
    EXPECT_GT(advice.trial->predicted_gain, 0.5);
    EXPECT_GT(advice.trial->measured_gain, 0.5);
    // Computing faster would not help.
    for (const Change& change : advice.changes) {
        if (change.text == "window.micro_batch_grains = 2") {
            EXPECT_LE(change.tokens_per_second, 1.01 * advice.times.tokens_per_second());
        }
    }
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by data: "));
    EXPECT_THAT(text, HasSubstr("Only faster loading helps"));
    expect_narrow(text);
}

TEST_F(AdviseTest, AThrottledAllReduceIsNamed) {
    const Advice advice = find_advice(idle_inputs(), plenty(),
                                      {.noise = {}, .world = {.data = nullptr, .synchronise = ThrottledAllReduce()}});
    EXPECT_EQ(advice.judgement.bound, Bound::network);
    EXPECT_GT(advice.judgement.share, 0.5);
    EXPECT_EQ(advice.times.synchronisation_bytes, int64_t{3} << 20);
    ASSERT_TRUE(advice.trial);
    EXPECT_EQ(advice.trial->change.text, "twice the window");
    EXPECT_GT(advice.trial->predicted_gain, 0.2);
    EXPECT_GT(advice.trial->tokens_per_second, 0);
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by the network: "));
    EXPECT_THAT(text, HasSubstr("3.00 MiB in and out"));
    expect_narrow(text);
}

TEST_F(AdviseTest, TooLittleMemoryIsNamed) {
    RunInputs inputs = small_inputs(1024, 4);
    inputs.settings.window.samples = 1;
    const int64_t memory = smallest_plan_of(inputs) + (int64_t{1} << 20);
    inputs.settings.compute.memory = std::to_string(memory);
    const Advice advice = find_advice(inputs, plenty(), {});
    EXPECT_EQ(advice.judgement.bound, Bound::memory_capacity);
    EXPECT_LE(advice.peak_bytes, memory);
    ASSERT_TRUE(advice.trial);
    EXPECT_TRUE(advice.trial->change.raises_memory);
    EXPECT_GT(advice.trial->predicted_gain, 0.1);
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by memory capacity: "));
    EXPECT_THAT(text, HasSubstr("compute.memory = \""));
    expect_narrow(text);
}

// Sixteen tokens, and then an update of millions of weights.
TEST_F(AdviseTest, AnUpdateAfterFewTokensIsBoundByMemoryBandwidth) {
    RunInputs inputs = small_inputs(16, 4);
    inputs.settings.window.samples = 1;
    const Advice advice = find_advice(inputs, plenty(), {});
    EXPECT_EQ(advice.judgement.bound, Bound::memory_bandwidth);
    EXPECT_FALSE(advice.whole);
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by memory bandwidth: "));
    EXPECT_THAT(text, HasSubstr("The update takes "));
    EXPECT_THAT(text, HasSubstr("accumulation: none: the window is one micro-batch"));
    expect_narrow(text);
}

TEST_F(AdviseTest, TheWindowIsWeighedAgainstTheNoiseOfARun) {
    const NoiseScale noise{.steps = 20, .below_noise = 2, .tokens = 1e7};
    Advice advice = find_advice(small_inputs(16, 1), plenty(), {.noise = noise});
    EXPECT_THAT(advice_text(advice), HasSubstr("A larger window would still pay: 64 tokens"));
    expect_narrow(advice_text(advice));
    const nlohmann::json json = nlohmann::json::parse(advice_json(advice).dump());
    EXPECT_EQ(json.at("window").at("verdict"), "larger_pays");
    EXPECT_EQ(json.at("window").at("better").at("samples"), 8);
    EXPECT_EQ(json.at("window").at("noise_scale").at("tokens"), 1e7);
    EXPECT_EQ(json.at("tried").at("same_result"), true);
    EXPECT_GT(json.at("tried").at("measured_tokens_per_second"), 0);
    EXPECT_GE(json.at("changes").size(), 4U);

    // The same measurements beside other runs.
    const auto text_with = [&](std::optional<double> tokens) {
        advice.window_facts.noise = NoiseScale{.steps = 20, .below_noise = 12, .tokens = tokens};
        advice.window_facts.fixed_seconds = 0.01 * advice.window_facts.seconds;
        advice.window = advise_window(advice.optimizer, advice.window_samples, advice.window_facts);
        expect_narrow(advice_text(advice));
        return advice_text(advice);
    };
    EXPECT_THAT(text_with(std::nullopt), HasSubstr("in 12 of the last 20 steps"));
    EXPECT_THAT(text_with(64), HasSubstr("The window is about right: 64 tokens"));
    EXPECT_THAT(text_with(8), HasSubstr("You would learn faster with a smaller window: 64 tokens are 8.0 times"));
    EXPECT_THAT(text_with(8), HasSubstr("With window.samples = 1, "));
    advice.window_in_tokens = true;
    EXPECT_THAT(text_with(8), HasSubstr("With window.tokens = 16, "));
    EXPECT_THAT(text_with(8), HasSubstr("accumulation: not at all: the better window is no more than one micro-batch"));
}

TEST_F(AdviseTest, OnlyAGainInEveryTurnIsAdvised) {
    const auto verdict = [](double predicted, double least, double median, double most) {
        Advice advice;
        advice.times.kernels[0] = 1;
        advice.trial = Trial{.change = {.text = "compute.threads = 4"},
                             .predicted_gain = predicted,
                             .measured_gain = median,
                             .least_gain = least,
                             .most_gain = most};
        const std::string text = advice_text(advice);
        const size_t second = text.find('\n') + 1;
        return text.substr(second, text.find('\n', second) - second);
    };
    EXPECT_EQ(verdict(0.2, 0.1, 0.15, 0.2), "Set compute.threads = 4: +15.0% tokens/s (measured).");
    EXPECT_THAT(verdict(0.2, -0.1, 0, 0.01), StartsWith("Keep the settings: "));
    EXPECT_THAT(verdict(0.01, -0.1, 0, 0.1), StartsWith("Keep the settings: "));
    EXPECT_THAT(verdict(0.2, -0.1, 0, 0.3), StartsWith("compute.threads = 4 may help: predicted +20.0%"));
}

TEST_F(AdviseTest, ARunThatCannotStartIsRefusedAlike) {
    EXPECT_THROW((void)find_advice(small_inputs(16, 1, "1MiB"), plenty(), {}), Error);
}

}  // namespace
}  // namespace accrue
