// Bottlenecks that are planted are named. Nothing here is measured: what a machine would say is planted too.
#include "accrue/assess/advise.h"

#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "tests/sanitized.h"
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

MemoryBound no_limit() {
    return {.bytes = int64_t{1} << 40, .reason = "no limit", .address_bytes = std::numeric_limits<int64_t>::max()};
}

// Windows of four grains of one sample, through as few blocks as are asked for.
RunInputs small_inputs(int64_t sequence_length, int64_t layers, const std::optional<ByteSize>& memory = {}) {
    Settings settings;
    settings.data.sequence_length = sequence_length;
    settings.window.samples = 4;
    settings.window.grain_samples = 1;
    settings.window.micro_batch_grains = 1;
    settings.compute.threads = 1;
    settings.compute.memory = memory;
    RunInputs inputs = open_inputs(settings);
    inputs.model = known_families().shaped("tiny", {.layers = layers}, {});
    return inputs;
}

// A machine on paper: what a window takes there follows from its work alone.
struct PaperMachine {
    Ceilings ceilings = {.flops = 100e9, .bytes = 20e9};
    double reached = 0.8;  // of both ceilings, by every kernel
    double call_seconds = 0;
    double load_seconds = 0;  // of a micro-batch, waited for
    double synchronisation_seconds = 0;
    double calls = 300;  // of a micro-batch

    [[nodiscard]] WindowTimes window(const RunInputs& inputs, const MeasuredWay& way, int threads) const {
        const auto grain = static_cast<double>(inputs.settings.window.grain_samples);
        const double micro_batches = way.window_samples / (grain * static_cast<double>(way.plan.micro_batch_grains));
        WindowTimes times{.tokens = way.window_samples * static_cast<double>(inputs.longest_sample())};
        times.rows = times.tokens;
        times.calls = micro_batches * calls;
        for (size_t part = 0; part < times.kernels.size(); ++part) {
            const Work& work = way.plan.work[part];
            const double seconds = (work.flops / ceilings.flops + work.bytes / ceilings.bytes) / (reached * threads);
            times.kernels[part] = (static_cast<Part>(part) == Part::optimizer ? 1 : micro_batches) * seconds;
        }
        times.kernels[0] += times.calls * call_seconds;
        times.data_wait_seconds = way.batches == MeasuredWay::Batches::held ? 0 : micro_batches * load_seconds;
        times.synchronisation_seconds = synchronisation_seconds;
        times.synchronisation_bytes = synchronisation_seconds > 0 ? 3 << 20 : 0;
        return times;
    }
};

AdviseRequest on(const PaperMachine& machine) {
    AdviseRequest request;
    request.processors = 1;
    request.instruments.rates = [](const RunInputs& inputs, Pool& pool, int64_t) {
        return Rates::typical(inputs.settings, pool.threads());
    };
    request.instruments.windows = [machine](const RunInputs& inputs, Pool& pool, const std::vector<MeasuredWay>& ways) {
        std::vector<MeasuredTimes> result;
        for (const MeasuredWay& way : ways) {
            MeasuredTimes& measured = result.emplace_back();
            measured.fastest = machine.window(inputs, way, pool.threads());
            measured.tokens_per_second.assign(3, measured.fastest.tokens_per_second());
        }
        return result;
    };
    request.instruments.ceilings = [machine](const RunInputs&, Pool&, int64_t) { return machine.ceilings; };
    return request;
}

// The processes' peaks of the smallest plan and of the fastest.
std::pair<int64_t, int64_t> least_and_most_bytes(const RunInputs& inputs) {
    const ProcessBase base = ProcessBase::measure();
    Planner planner(inputs.settings, inputs.model, inputs.longest_sample(), 1);
    return {process_bytes(base, planner, planner.frontier(Rates::typical(inputs.settings, 1)).back()),
            process_bytes(base, planner, planner.unlimited())};
}

const Change* change_named(const Advice& advice, const std::string& text) {
    for (const Change& change : advice.changes) {
        if (change.text == text) {
            return &change;
        }
    }
    return nullptr;
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

TEST_F(AdviseTest, AStepThatOnlyComputesIsBoundByCompute) {
    const Advice advice =
        find_advice(small_inputs(256, 1), no_limit(), on({.ceilings = {.flops = 10e9, .bytes = 50e9}}));
    EXPECT_EQ(advice.judgement.bound, Bound::compute);
    EXPECT_GT(advice.judgement.share, 0.5);
    EXPECT_EQ(advice.times.tokens, 4 * 256);
    EXPECT_GT(advice.reached_flops, 0.5 * 10e9);
    EXPECT_LT(advice.reached_flops, 0.8 * 10e9);
    EXPECT_NEAR(advice.split.arithmetic_seconds + advice.split.streaming_seconds + advice.split.overhead_seconds,
                advice.times.compute_seconds(), 1e-9);
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
    EXPECT_THAT(text, HasSubstr("1200 kernel calls of "));
    EXPECT_THAT(text, HasSubstr("window.micro_batch_grains = 2"));
    EXPECT_THAT(text, HasSubstr("compute.recompute = \"block\""));
    EXPECT_THAT(text, HasSubstr("give one with --run FOLDER"));
    expect_narrow(text);
}

TEST_F(AdviseTest, AStepOfSmallCallsIsBoundByOverheadAndTriesLargerPieces) {
    const Advice advice = find_advice(small_inputs(16, 1), no_limit(), on({.call_seconds = 1e-3}));
    EXPECT_EQ(advice.judgement.bound, Bound::overhead);
    EXPECT_GT(advice.judgement.share, 0.9);
    // The whole window in one micro-batch: the most work a call, and the same bits.
    ASSERT_TRUE(advice.trial);
    EXPECT_EQ(advice.trial->change.text, "window.micro_batch_grains = 4");
    EXPECT_EQ(advice.trial->change.result, Change::Result::same);
    EXPECT_GT(advice.trial->measured_gain, 2) << "a quarter of the calls";
    EXPECT_TRUE(advice.whole->is_measured);
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by overhead: neither arithmetic nor memory explains "));
    EXPECT_THAT(text, HasSubstr("\nSet window.micro_batch_grains = 4: +"));
    EXPECT_THAT(text, HasSubstr("\n  overhead "));
    EXPECT_THAT(text, HasSubstr("window.grain_samples"));
    expect_narrow(text);
    const nlohmann::json json = nlohmann::json::parse(advice_json(advice).dump());
    EXPECT_EQ(json.at("bound"), "overhead");
    EXPECT_EQ(json.at("times").at("overhead_seconds"), advice.split.overhead_seconds);
    EXPECT_EQ(json.at("times").at("kernel_calls"), 1200);
}

// A GPU has no threads to choose, and its memory is the card's.
TEST_F(AdviseTest, OnAGpuTheAdviceIsAboutTheGpu) {
    RunInputs inputs = small_inputs(16, 1);
    inputs.settings.compute.device = DeviceName(DeviceKind::cuda, 1);
    const Advice advice = find_advice(inputs, no_limit(), on({.call_seconds = 1e-3}));
    EXPECT_EQ(advice.judgement.bound, Bound::overhead);
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, HasSubstr("small for a GPU"));
    EXPECT_THAT(text, HasSubstr("cuda:1"));
    EXPECT_THAT(text, Not(HasSubstr("thread")));
    expect_narrow(text);
    EXPECT_EQ(nlohmann::json::parse(advice_json(advice).dump()).dump().find("\"device\":\"cpu\""), std::string::npos);
    for (const Change& change : advice.changes) {
        EXPECT_THAT(change.text, Not(HasSubstr("thread")));
    }
}

TEST_F(AdviseTest, OverheadInAWindowOfOnePieceTriesWhatElseThereIs) {
    RunInputs inputs = small_inputs(16, 1);
    inputs.settings.window.samples = 1;
    const Advice advice = find_advice(inputs, no_limit(), on({.call_seconds = 1e-3}));
    EXPECT_EQ(advice.judgement.bound, Bound::overhead);
    ASSERT_TRUE(advice.trial);
    EXPECT_THAT(advice_text(advice), HasSubstr("fewer threads"));
}

TEST_F(AdviseTest, ASlowLoaderIsNamed) {
    const Advice advice = find_advice(small_inputs(16, 1), no_limit(), on({.load_seconds = 0.05}));
    EXPECT_EQ(advice.judgement.bound, Bound::data);
    EXPECT_GT(advice.judgement.share, 0.3);
    ASSERT_TRUE(advice.trial);
    EXPECT_EQ(advice.trial->change.text, "batches already in memory");
    EXPECT_GT(advice.trial->predicted_gain, 0.5);
    EXPECT_NEAR(advice.trial->measured_gain, advice.trial->predicted_gain, 1e-9);
    // Computing faster would not help.
    const Change* const larger = change_named(advice, "window.micro_batch_grains = 2");
    ASSERT_NE(larger, nullptr);
    EXPECT_LE(larger->tokens_per_second, 1.000001 * advice.times.tokens_per_second());
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by data: "));
    EXPECT_THAT(text, HasSubstr("Only faster loading helps"));
    expect_narrow(text);
}

TEST_F(AdviseTest, AThrottledAllReduceIsNamed) {
    const Advice advice = find_advice(small_inputs(16, 1), no_limit(), on({.synchronisation_seconds = 10}));
    EXPECT_EQ(advice.judgement.bound, Bound::network);
    EXPECT_GT(advice.judgement.share, 0.5);
    ASSERT_TRUE(advice.trial);
    EXPECT_EQ(advice.trial->change.text, "twice the window");
    EXPECT_GT(advice.trial->predicted_gain, 0.2);
    EXPECT_GT(advice.trial->measured_gain, 0.2);
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by the network: "));
    EXPECT_THAT(text, HasSubstr("3.00 MiB in and out"));
    expect_narrow(text);
}

TEST_F(AdviseTest, TooLittleMemoryIsNamed) {
    if (kSanitized) {
        GTEST_SKIP() << "a sanitizer keeps freed memory";
    }
    RunInputs inputs = small_inputs(1024, 4);
    inputs.settings.window.samples = 1;
    const auto [least, most] = least_and_most_bytes(inputs);
    const int64_t memory = least + (most - least) / 8;
    inputs.settings.compute.memory = parse_byte_size(std::to_string(memory));
    const Advice advice = find_advice(inputs, no_limit(), on({}));
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
    const Advice advice = find_advice(inputs, no_limit(), on({}));
    EXPECT_EQ(advice.judgement.bound, Bound::memory_bandwidth);
    EXPECT_FALSE(advice.whole);
    const std::string text = advice_text(advice);
    EXPECT_THAT(text, StartsWith("Bound by memory bandwidth: "));
    EXPECT_THAT(text, HasSubstr("The update takes "));
    EXPECT_THAT(text, HasSubstr("accumulation: none: the window is one micro-batch"));
    expect_narrow(text);
}

// Where there is no room for the arrays that the bandwidth is measured with, the update's own rate stands in for it.
TEST_F(AdviseTest, WithoutRoomToMeasureTheBandwidthIsThatOfTheUpdate) {
    const PaperMachine machine{.ceilings = {.flops = 100e9, .bytes = 20e9}};
    AdviseRequest request = on(machine);
    request.instruments.ceilings = [](const RunInputs&, Pool&, int64_t) {
        return Ceilings{.flops = 100e9, .bytes = 0};
    };
    const Advice advice = find_advice(small_inputs(16, 1), no_limit(), request);
    EXPECT_NEAR(advice.ceilings.bytes, machine.reached * 20e9, 0.05 * 20e9);
}

TEST_F(AdviseTest, ThreadsAreHalvedAndRaisedToAllThereAre) {
    AdviseRequest request = on({});
    request.processors = 6;
    RunInputs inputs = small_inputs(16, 1);
    inputs.settings.compute.threads = 4;
    const Advice advice = find_advice(inputs, no_limit(), request);
    EXPECT_NE(change_named(advice, "compute.threads = 2"), nullptr);
    EXPECT_NE(change_named(advice, "compute.threads = 6"), nullptr);
    EXPECT_EQ(change_named(advice, "compute.threads = 4"), nullptr);
}

// Each thread takes memory for itself, which the trial of a change must have.
TEST_F(AdviseTest, MoreThreadsArePlannedWithTheirMemory) {
    const RunInputs inputs = small_inputs(64, 2);
    AdviseRequest request = on({});
    request.processors = 16;
    const Advice advice = find_advice(inputs, no_limit(), request);
    const Change* more = change_named(advice, "compute.threads = 16");
    ASSERT_NE(more, nullptr);
    Planner planner(inputs.settings, inputs.model, inputs.longest_sample(), 16);
    EXPECT_EQ(more->plan.arena_bytes, planner.plan_of(more->plan.choices, more->plan.micro_batch_grains).arena_bytes);
    EXPECT_GT(more->plan.arena_bytes, advice.plan.arena_bytes);
}

TEST_F(AdviseTest, TheWindowIsWeighedAgainstTheNoiseOfARun) {
    const NoiseScale noise{.steps = 20, .below_noise = 2, .tokens = 1e7};
    AdviseRequest request = on({});
    request.noise = noise;
    Advice advice = find_advice(small_inputs(16, 1), no_limit(), request);
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
    EXPECT_THROW((void)find_advice(small_inputs(16, 1, parse_byte_size("1MiB")), no_limit(), on({})), Error);
}

}  // namespace
}  // namespace accrue
