// State in a second piece of the arena, as that of a GPU lies in the host's memory: the same bits, and really there. Where the
// tests' device is a GPU (ACCRUE_TEST_DEVICE=cuda) it is the host's memory; elsewhere a piece like the first.
#include <filesystem>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/initial_weights.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/state.h"

namespace accrue::testing {
namespace {

constexpr int64_t kDeviceBytes = int64_t{256} << 20;
constexpr int64_t kHostBytes = int64_t{64} << 20;

// An engine whose arena has a second piece, on the device of the tests. What it reads and how it is loaded are an ordinary
// run's.
struct PlacedRun {
    PlacedRun(TestRun& around, const Settings& settings)
        : run(around),
          arena(make_backing(device_of(around.inputs.settings.compute), kDeviceBytes),
                make_host_part(device_of(around.inputs.settings.compute), kHostBytes)),
          kernels(make_kernels(device_of(around.inputs.settings.compute), around.pool, arena)),
          engine(settings, around.inputs.model, around.inputs.longest_sample(), *kernels) {
        load_initial_weights(engine, settings);
    }

    std::string steps(int64_t count) {
        while (engine.state.step < count) {
            const Window window = run.loader.window_from(engine.state.position, engine.rules.window);
            EXPECT_FALSE(run_step(engine, run.loader, window, run.stop)->skipped);
        }
        return engine.weights_hash();
    }
    // Bytes of the moments, and how many of them lie in the second piece.
    [[nodiscard]] std::pair<int64_t, int64_t> moments() {
        int64_t all = 0;
        int64_t on_host = 0;
        for (const StoredMoment& moment : engine.optimizer->moments()) {
            for (const StoredMoment::Part& part : moment.parts) {
                all += std::ssize(part.device_bytes);
                on_host += arena.is_on_host(part.device_bytes.data()) ? std::ssize(part.device_bytes) : 0;
            }
        }
        return {all, on_host};
    }

    TestRun& run;
    Arena arena;
    std::unique_ptr<Kernels> kernels;
    Engine engine;
};

class HostStateTest : public ::testing::Test {
protected:
    HostStateTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        copy_model("llama-tied", folder_ / "model", {});
        settings_ = small_settings(folder_ / "model", folder_ / "data.safetensors");
        settings_.compute.dtype = DType::bf16;
    }
    [[nodiscard]] Settings with(HostState state) const {
        Settings settings = settings_;
        settings.compute.host_state = state;
        return settings;
    }

    TemporaryFolder folder_;
    Settings settings_;
};

TEST_F(HostStateTest, StateLiesInTheSecondPieceAndNoBitDependsOnIt) {
    constexpr int64_t kSteps = 3;
    for (const auto& [sums, moments, optimizer] :
         {std::tuple(SumKind::exact, MomentFormat::fp32, OptimizerKind::adamw),
          std::tuple(SumKind::exact, MomentFormat::eight_bits, OptimizerKind::adamw),
          std::tuple(SumKind::bf16_stochastic, MomentFormat::eight_bits, OptimizerKind::sgd)}) {
        SCOPED_TRACE(cat(word_of(sums), ", ", word_of(moments), ", ", word_of(optimizer)));
        settings_.compute.sums = sums;
        settings_.optimizer.moments = moments;
        settings_.optimizer.name = optimizer;
        TestRun plain(settings_, 2);
        const std::string expected = plain.run(kSteps);
        const int64_t resident = plain.arena.bytes_in_use();
        for (const HostState state : {HostState::none, HostState::moments, HostState::sums}) {
            SCOPED_TRACE(word_of(state));
            PlacedRun placed(plain, with(state));
            EXPECT_EQ(placed.steps(kSteps), expected);
            EXPECT_EQ(placed.arena.bytes_in_use() + placed.arena.on_host().bytes_in_use(), resident);
            const auto [of_moments, moments_on_host] = placed.moments();
            EXPECT_GT(of_moments, 0);
            EXPECT_EQ(moments_on_host, state == HostState::none ? 0 : of_moments);
            EXPECT_EQ(placed.arena.is_on_host(placed.engine.sum.device_bytes().data()), state == HostState::sums);
            EXPECT_FALSE(placed.arena.is_on_host(placed.engine.weights.master.data));
            EXPECT_EQ(placed.arena.on_host().bytes_in_use(), placed.arena.on_host().high_water_bytes())
                << "what comes and goes is the device's";
        }
    }
}

// Also in the middle of a window, whose sums are then saved.
TEST_F(HostStateTest, ARunGoesOnWithItsStateElsewhere) {
    constexpr int64_t kSteps = 4;
    TestRun plain(settings_, 1);
    const std::string expected = plain.run(kSteps);
    const std::string definition = definition_of(plain.inputs, plain.engine.model->parameters());
    const HostState states[] = {HostState::none, HostState::moments, HostState::sums};
    for (const HostState before : states) {
        for (const HostState after : states) {
            SCOPED_TRACE(cat(word_of(before), " to ", word_of(after)));
            const std::filesystem::path checkpoints =
                folder_ / cat("checkpoints-", word_of(before), "-", word_of(after));
            TestRun stopped(settings_, 1);
            PlacedRun first(stopped, with(before));
            (void)first.steps(2);
            stopped.stop = false;
            const StoppingLoader two_grains(stopped, 2);
            const Window window = stopped.loader.window_from(first.engine.state.position, first.engine.rules.window);
            ASSERT_FALSE(run_step(first.engine, two_grains, window, stopped.stop));
            ASSERT_EQ(first.engine.finished_grains(), 2);
            save_state(first.engine, definition, checkpoints);

            TestRun resumed(settings_, 1);
            PlacedRun second(resumed, with(after));
            load_state(second.engine, definition, checkpoint_path(checkpoints, 2));
            EXPECT_EQ(second.engine.finished_grains(), 2);
            EXPECT_EQ(second.steps(kSteps), expected);
        }
    }
}

TEST_F(HostStateTest, StateThatHasNoPlaceOnTheHostIsAnError) {
    TestRun plain(settings_, 1);
    EXPECT_THROW(Engine(with(HostState::moments), plain.inputs.model, plain.inputs.longest_sample(), *plain.kernels),
                 Error);
    settings_.optimizer.name = OptimizerKind::sgd;
    settings_.optimizer.momentum = 0;
    EXPECT_NO_THROW(Engine(with(HostState::moments), plain.inputs.model, plain.inputs.longest_sample(), *plain.kernels))
        << "there are none";
}

}  // namespace
}  // namespace accrue::testing
