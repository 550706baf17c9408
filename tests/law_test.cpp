// The law: the weights do not depend on how a window was cut, who computed it or in which order.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <numeric>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/base/random.h"
#include "accrue/train/settings_words.h"

namespace accrue::testing {
namespace {

struct Shape {
    std::string name;
    std::string model;
    DType dtype;
    std::map<std::string, std::string> config;  // edits of config.json
};

void PrintTo(const Shape& shape, std::ostream* out) {
    *out << shape.name;
}

constexpr int64_t kSteps = 20;

// Windows of 7 samples in epochs of 30: ragged lengths, a sample that counts nothing, a short last grain, a short last
// window.
class LawTest : public ::testing::TestWithParam<Shape> {
protected:
    LawTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        copy_model(GetParam().model, folder_ / "model", GetParam().config);
    }

    [[nodiscard]] Settings settings() const {
        Settings settings = small_settings(folder_ / "model", folder_ / "data.safetensors");
        settings.compute.dtype = GetParam().dtype;
        return settings;
    }

    TemporaryFolder folder_;
};

TEST_P(LawTest, ThreadsAndMicroBatchesKeepTheBits) {
    const std::string expected = TestRun(settings(), 1).run(kSteps);
    for (const int threads : {1, 2, 3}) {
        for (const int64_t grains : {1, 2, 5, 100}) {
            Settings cut_otherwise = settings();
            cut_otherwise.window.micro_batch_grains = grains;
            EXPECT_EQ(TestRun(cut_otherwise, threads).run(kSteps), expected)
                << threads << " threads, " << grains << " grains";
        }
    }
}

// Not the law's promise, but fp32 sums keep grain order, so they too repeat whatever the cut.
TEST_P(LawTest, Fp32SumsKeepTheirBitsInOneProcess) {
    const auto run_with = [&](int threads, int64_t grains) {
        Settings plain = settings();
        plain.compute.sums = SumKind::fp32;
        plain.window.micro_batch_grains = grains;
        return TestRun(plain, threads).run(kSteps);
    };
    const std::string expected = run_with(1, 1);
    EXPECT_NE(expected, TestRun(settings(), 1).run(kSteps)) << "exact and fp32 sums round differently";
    EXPECT_EQ(run_with(2, 2), expected);
    EXPECT_EQ(run_with(3, 100), expected);
}

TEST_P(LawTest, AWindowGivenInTokensKeepsItsBits) {
    const auto run_with = [&](int threads, int64_t grains) {
        Settings in_tokens = settings();
        in_tokens.window.samples = 0;
        in_tokens.window.tokens = 60;
        in_tokens.window.micro_batch_grains = grains;
        return TestRun(in_tokens, threads).run(kSteps);
    };
    EXPECT_EQ(run_with(3, 2), run_with(1, 1));
}

TEST_P(LawTest, AnotherGrainIsAnotherDefinition) {
    Settings other = settings();
    other.window.grain_samples = 3;
    EXPECT_NE(TestRun(other, 1).run(kSteps), TestRun(settings(), 1).run(kSteps));
}

// Adds a window's grains in shuffled order into several sums, then merges these in a shuffled tree.
TEST_P(LawTest, OrderAndTreeOfSumsKeepTheBits) {
    TestRun run(settings(), 2);
    (void)run.step();
    const Window window = run.window();
    const Units units = run.engine.state.units;
    const int64_t flat = run.engine.model->parameters().flat_elements;
    const std::vector<SumTensor> tensors(run.engine.sum.tensors().begin(), run.engine.sum.tensors().end());
    const auto add_grains = [&](GradientSum& sum, const std::vector<int64_t>& grains) {
        for (const MicroBatch& batch : cut(grains, 2)) {
            run.engine.model->forward_backward(run.loader.load(window, batch.grains), run.engine.weights_to_read(),
                                               sum);
        }
    };
    std::vector<int64_t> order(static_cast<size_t>(window.grains()));
    std::iota(order.begin(), order.end(), 0);
    GradientSum whole(tensors, flat, SumKind::exact, *run.kernels);
    whole.open(window.grains(), units);
    add_grains(whole, order);

    for (uint64_t seed = 1; seed <= 5; ++seed) {
        std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            return mix(seed, static_cast<uint64_t>(a)) < mix(seed, static_cast<uint64_t>(b));
        });
        std::vector<std::unique_ptr<GradientSum>> parts;
        for (size_t first = 0; first < order.size(); first += 1 + seed % 2) {
            parts.push_back(std::make_unique<GradientSum>(tensors, flat, SumKind::exact, *run.kernels));
            parts.back()->open(window.grains(), units);
            const size_t last = std::min(order.size(), first + 1 + seed % 2);
            add_grains(*parts.back(),
                       {order.begin() + static_cast<int64_t>(first), order.begin() + static_cast<int64_t>(last)});
        }
        while (parts.size() > 1) {
            const size_t into = mix(seed, parts.size()) % (parts.size() - 1);
            parts[into]->add(*parts.back());
            parts.pop_back();
        }
        EXPECT_TRUE(bytes_of(parts[0]->source()) == bytes_of(whole.source())) << "seed " << seed;
        EXPECT_EQ(parts[0]->ledger(), whole.ledger()) << "seed " << seed;
    }
}

std::string text_of(const Choices& choices) {
    std::string text =
        cat(choices.loss_rows, " rows of the loss, weight copy ", word_of(choices.weight_copy), ", blocks");
    for (const Recompute recompute : choices.blocks) {
        text += cat(" ", word_of(recompute));
    }
    return text;
}

// All that the planner may choose freely, for a model of two layers.
std::vector<Choices> free_choices() {
    using enum Recompute;
    using enum Choices::WeightCopy;
    return {{.blocks = {cheap, cheap}},
            {.blocks = {block, block}},
            {.blocks = {block, nothing}},
            {.blocks = {nothing, cheap}},
            {.blocks = {cheap, block}, .loss_rows = 7, .weight_copy = converted_per_tile},
            {.blocks = {}, .loss_rows = 1},
            {.blocks = {}, .loss_rows = 100000},
            {.blocks = {cheap, nothing}, .waiting_grains = 3},
            {.blocks = {}, .loss_rows = Choices::kLossRows, .weight_copy = converted_per_tile}};
}

TEST_P(LawTest, WhatIsKeptAndWhatIsComputedAgainKeepsTheBits) {
    constexpr int64_t kFew = 6;
    const std::string expected = TestRun(settings(), 1).run(kFew);
    Settings cut_otherwise = settings();
    cut_otherwise.window.micro_batch_grains = 2;
    for (const Choices& choices : free_choices()) {
        TestRun run(cut_otherwise, 2);
        run.engine.choose(choices);
        EXPECT_EQ(run.run(kFew), expected) << text_of(choices);
    }
    for (const auto& [word, recompute] : words_for(Recompute())) {
        cut_otherwise.compute.recompute = recompute;
        EXPECT_EQ(TestRun(cut_otherwise, 2).run(kFew), expected) << word;
    }
}

// Each grain of a window with another choice, each step after another one.
TEST_P(LawTest, ChoosingAnewBetweenMicroBatchesKeepsTheBits) {
    TestRun plain(settings(), 2);
    TestRun run(settings(), 2);
    const std::vector<Choices> choices = free_choices();
    for (size_t step = 0; step < choices.size(); ++step) {
        run.engine.choose(choices[step]);
        (void)run.step();
        (void)plain.step();
        ASSERT_EQ(run.engine.weights_hash(), plain.engine.weights_hash()) << "after " << text_of(choices[step]);
    }
    const Window window = run.window();
    const std::vector<SumTensor> tensors(run.engine.sum.tensors().begin(), run.engine.sum.tensors().end());
    const auto sum_of_window = [&](const std::vector<Choices>& in_turns) {
        auto sum = std::make_unique<GradientSum>(tensors, run.engine.model->parameters().flat_elements, SumKind::exact,
                                                 *run.kernels);
        sum->open(window.grains(), run.engine.state.units);
        for (int64_t grain = 0; grain < window.grains(); ++grain) {
            run.engine.choose(in_turns[static_cast<size_t>(grain) % in_turns.size()]);
            run.engine.model->forward_backward(run.loader.load(window, std::span(&grain, 1)),
                                               run.engine.weights_to_read(), *sum);
        }
        return sum;
    };
    const auto whole = sum_of_window({Choices{}});
    const auto changing = sum_of_window(choices);
    EXPECT_TRUE(bytes_of(changing->source()) == bytes_of(whole->source()));
    EXPECT_EQ(changing->ledger(), whole->ledger());
}

// Units far too fine for the window: the sums would not fit, and the window is replayed with coarser ones.
TEST_P(LawTest, AnOverflowIsReplayedAlikeByEverybody) {
    const auto run_with_fine_units = [&](int threads, int64_t grains) {
        Settings cut_otherwise = settings();
        cut_otherwise.window.micro_batch_grains = grains;
        TestRun run(cut_otherwise, threads);
        (void)run.step();
        std::vector<int32_t> exponents = run.engine.state.units.exponents();
        for (int32_t& exponent : exponents) {
            exponent -= 40;
        }
        run.engine.state.units = Units(exponents);
        const auto report = run.step();
        EXPECT_GE(report->replays, 1);
        return run.run(6);
    };
    const std::string expected = run_with_fine_units(1, 1);
    for (const int threads : {2, 3}) {
        for (const int64_t grains : {2, 100}) {
            EXPECT_EQ(run_with_fine_units(threads, grains), expected) << threads << " threads, " << grains << " grains";
        }
    }
}

// Two stops in each window; the sums stay in memory here (the program's tests go through the disk).
TEST_P(LawTest, StoppingInsideAWindowAndGoingOnKeepsTheBits) {
    TestRun straight(settings(), 2);
    TestRun halting(settings(), 2);
    (void)straight.step();
    (void)halting.step();
    for (int64_t step = 0; step < 3; ++step) {
        const Window window = halting.window();
        ASSERT_EQ(window.grains(), 4);
        const auto stop_after = [&](int64_t micro_batches) {
            EXPECT_FALSE(
                run_step(halting.engine, StoppingLoader(halting, micro_batches), window, halting.stop).has_value());
            EXPECT_TRUE(halting.engine.state.open);
            halting.stop = false;
        };
        stop_after(1);
        EXPECT_EQ(halting.engine.finished_grains(), 1);
        stop_after(2);
        EXPECT_EQ(halting.engine.finished_grains(), 3);
        const StoppingLoader rest(halting, 100);
        EXPECT_TRUE(run_step(halting.engine, rest, window, halting.stop).has_value());
        EXPECT_EQ(rest.loads(), 1) << "only what is missing is computed";
        (void)straight.step();
        ASSERT_EQ(halting.engine.weights_hash(), straight.engine.weights_hash()) << "step " << step;
    }
}

std::vector<Shape> shapes() {
    const std::map<std::string, std::string> dropout = {
        {"resid_pdrop", "0.1"}, {"embd_pdrop", "0.1"}, {"attn_pdrop", "0.1"}};
    std::vector<Shape> result;
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        result.push_back({.name = cat("untied_", name_of(dtype)), .model = "llama", .dtype = dtype, .config = {}});
        result.push_back({.name = cat("tied_", name_of(dtype)), .model = "qwen2", .dtype = dtype, .config = {}});
        result.push_back({.name = cat("dropout_", name_of(dtype)), .model = "gpt2", .dtype = dtype, .config = dropout});
        result.push_back({.name = cat("head_norms_", name_of(dtype)), .model = "qwen3", .dtype = dtype, .config = {}});
    }
    return result;
}

INSTANTIATE_TEST_SUITE_P(Shapes, LawTest, ::testing::ValuesIn(shapes()),
                         [](const auto& info) { return info.param.name; });

// The last position's embedding is so large that a sample of full length gives infinities: its windows are skipped, by
// everybody.
TEST(SkipTest, AWindowThatIsNotFiniteIsSkippedAlikeByEverybody) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {.samples = 30});
    copy_model("gpt2", folder / "model", {}, [](const std::string& name, std::vector<float>& values) {
        if (name == "transformer.wpe.weight") {
            std::fill(values.begin() + 22 * 32, values.begin() + 23 * 32, 3e38F);
        }
    });
    const auto run_it = [&](DType dtype, int threads, int64_t grains) {
        Settings settings = small_settings(folder / "model", folder / "data.safetensors");
        settings.window.samples = 2;
        settings.window.grain_samples = 1;
        settings.window.micro_batch_grains = grains;
        settings.compute.dtype = dtype;
        TestRun run(settings, threads);
        std::string skipped;
        while (run.engine.state.step < 15) {
            const std::string before = run.engine.weights_hash();
            const auto updates = run.engine.optimizer->counters().updates;
            const auto report = run.step();
            skipped += report->skipped ? 's' : '.';
            if (report->skipped) {
                EXPECT_EQ(run.engine.weights_hash(), before);
                EXPECT_EQ(run.engine.optimizer->counters().updates, updates);
            }
        }
        return skipped + run.engine.weights_hash();
    };
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        const std::string expected = run_it(dtype, 1, 1);
        EXPECT_NE(expected.find('s'), std::string::npos) << "no window was skipped: " << expected;
        EXPECT_NE(expected.find('.'), std::string::npos) << "all windows were skipped: " << expected;
        EXPECT_EQ(run_it(dtype, 3, 2), expected);
    }
}

// Loses a grain on the way.
class WithoutGrain final : public PassedBatches {
public:
    WithoutGrain(const BatchSource& data, int64_t grain) : PassedBatches(data), grain_(grain) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        std::vector<int64_t> others;
        std::copy_if(grains.begin(), grains.end(), std::back_inserter(others),
                     [this](int64_t grain) { return grain != grain_; });
        return data().load(window, others);
    }

private:
    int64_t grain_;
};

TEST(GrainTest, WithoutAllItsGrainsAWindowChangesNoWeights) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    TestRun run(small_settings(golden("llama"), folder / "data.safetensors"), 1);
    run.engine.rules.micro_batch_grains = 2;
    const std::string before = run.engine.weights_hash();
    try {
        (void)run_step(run.engine, WithoutGrain(run.loader, 3), run.window(), run.stop);
        FAIL() << "the weights were changed without grain 3";
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find("step 1: the sums hold 3 of the window's 4 grains, and grain 3 is "),
                  0U)
            << error.what();
    }
    EXPECT_EQ(run.engine.weights_hash(), before);
    EXPECT_EQ(run.engine.state.step, 0);
    // What is in the sums is good: the missing grain makes the window whole.
    EXPECT_TRUE(run.step());
    EXPECT_EQ(run.engine.weights_hash(), TestRun(run.inputs.settings, 1).run(1));
}

// Finite gradients may have a sum that is not, in a format that cannot hold it.
TEST(SkipTest, AWindowWhoseSumOverflowsIsSkipped) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {.samples = 30});
    copy_model("gpt2", folder / "model", {});
    for (const SumKind sums : {SumKind::fp32, SumKind::bf16}) {
        Settings settings = small_settings(folder / "model", folder / "data.safetensors");
        settings.compute.sums = sums;
        TestRun run(settings, 2);
        run.stop = true;
        EXPECT_FALSE(run.step().has_value());  // the window is open
        run.stop = false;
        const float infinity = std::numeric_limits<float>::infinity();
        const Bf16 narrow(infinity);
        const bool is_fp32 = run.engine.sum.kind() == SumKind::fp32;
        upload(*run.kernels, is_fp32 ? std::as_bytes(std::span(&infinity, 1)) : std::as_bytes(std::span(&narrow, 1)),
               run.engine.sum.device_bytes().data());
        const std::string before = run.engine.weights_hash();
        const auto report = run.step();
        EXPECT_TRUE(report->skipped);
        EXPECT_NE(report->skip_reason.find("too large for its number format"), std::string::npos);
        EXPECT_EQ(run.engine.weights_hash(), before);
        EXPECT_EQ(run.engine.state.skipped_in_a_row, 1);
        EXPECT_FALSE(run.step()->skipped);
        EXPECT_NE(run.engine.weights_hash(), before);
    }
}

// Only a test that fails waits so long.
constexpr std::chrono::seconds kLongEnough{60};

// Loads the first batch of a window only when it is allowed to.
class HeldAtAWindow final : public PassedBatches {
public:
    HeldAtAWindow(const Loader& loader, const DataPosition& held) : PassedBatches(loader), held_(held) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        if (window.first == held_ && grains.front() == 0 && !asked_) {
            asked_ = true;
            has_begun.set_value();
            was_waited_for = may_go_on.get_future().wait_for(kLongEnough) != std::future_status::ready;
        }
        return data().load(window, grains);
    }

    mutable std::promise<void> has_begun;
    mutable std::promise<void> may_go_on;
    mutable bool was_waited_for = false;

private:
    DataPosition held_;
    mutable bool asked_ = false;
};

TEST(OverlapTest, TheNextWindowIsLoadedDuringAStepThatDoesNotWaitForIt) {
    TemporaryFolder folder;
    write_ragged_data(folder / "data.safetensors", {});
    const Settings settings = small_settings(golden("llama"), folder / "data.safetensors");
    TestRun plain(settings, 2);
    TestRun run(settings, 2);
    HeldAtAWindow source(run.loader, run.window().next());
    const LoadAhead batches(source, [&](const DataPosition& position) {
        return run.loader.window_from(position, run.engine.rules.window);
    });
    ASSERT_TRUE(run_step(run.engine, batches, run.window(), run.stop));
    ASSERT_EQ(source.has_begun.get_future().wait_for(kLongEnough), std::future_status::ready);
    source.may_go_on.set_value();
    ASSERT_TRUE(run_step(run.engine, batches, run.window(), run.stop));
    EXPECT_FALSE(source.was_waited_for);
    EXPECT_EQ(run.engine.weights_hash(), plain.run(2));
}

}  // namespace
}  // namespace accrue::testing
