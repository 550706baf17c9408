// The law with several workers: engines, threads and loaders of their own, and the step that a run takes.

#include <future>

#include "tests/support.h"
#include "tests/team.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/metrics_line.h"
#include "accrue/train/state.h"

namespace accrue::testing {
namespace {

// What a run has to show: its metrics and, in each step, whom it blames; then its weights.
struct Shown {
    std::vector<StepReport> reports;
    std::string hash;
};

std::vector<std::string> texts_of(const Shown& shown) {
    const TemporaryFolder folder;
    std::string lines;
    for (const StepReport& report : shown.reports) {
        lines += metrics_line(report, {}).dump() + "\n";
    }
    write_text(folder / "metrics.jsonl", lines);
    std::vector<std::string> texts = comparable_metrics(folder / "metrics.jsonl", MicroBatches::ignore);
    for (size_t i = 0; i < texts.size(); ++i) {
        texts[i] += " " + shown.reports[i].skip_reason;
    }
    texts.push_back(shown.hash);
    return texts;
}

Shown alone(TestRun& run, int64_t steps) {
    Shown shown;
    while (run.engine.state.step < steps) {
        shown.reports.push_back(run.step().value());
    }
    shown.hash = run.engine.weights_hash();
    return shown;
}

// Breaks down at one of its loads.
class BreakingLoader final : public PassedBatches {
public:
    class Broken final : public std::exception {};
    BreakingLoader(const BatchSource& data, int64_t last) : PassedBatches(data), loads_left_(last) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        if (--loads_left_ == 0) {
            throw Broken();
        }
        return data().load(window, grains);
    }

private:
    mutable int64_t loads_left_;
};

// Workers with one and two grains in a micro-batch. Each has one thread: pools of several engines would spin away each
// other's time.
class Workforce {
public:
    using Settle = std::function<void(TestRun&)>;

    Workforce(const Settings& settings, const Sharing& sharing) : team_(sharing) {
        for (size_t number = 0; number < sharing.shares.size(); ++number) {
            Settings own = settings;
            own.window.micro_batch_grains = 1 + static_cast<int64_t>(number) % 2;
            runs_.push_back(std::make_unique<TestRun>(own, 1));
        }
    }

    // The first one's; each one's is the same.
    Shown run(int64_t steps) {
        return together([&](size_t number) { return steps_of(number, runs_[number]->batches, steps); });
    }
    // One of them stops while it computes its n-th micro-batch.
    void run_until_stopped(size_t number, int64_t load) {
        const StoppingLoader stopping(*runs_[number], load);
        (void)together([&](size_t each) {
            return steps_of(each, each == number ? static_cast<const BatchSource&>(stopping) : runs_[each]->batches,
                            kNever);
        });
        runs_[number]->stop = false;
    }
    // One of them is gone in the middle of a window, with all that it had done there.
    Shown run_and_lose(size_t number, int64_t load, int64_t steps) {
        const BreakingLoader breaking(runs_[number]->loader, load);
        return together([&](size_t each) {
            return steps_of(each, each == number ? static_cast<const BatchSource&>(breaking) : runs_[each]->batches,
                            steps);
        });
    }

    void each(const Settle& settle) {
        for (auto& run : runs_) {
            settle(*run);
        }
    }
    [[nodiscard]] TestRun& operator[](size_t number) { return *runs_[number]; }
    [[nodiscard]] size_t size() const { return runs_.size(); }
    [[nodiscard]] const Team& team() const { return team_; }

private:
    static constexpr int64_t kNever = 1'000'000;

    // Ends early if somebody stops. A worker that is lost leaves what it has shown.
    Shown steps_of(size_t number, const BatchSource& data, int64_t steps) {
        TestRun& run = *runs_[number];
        Shown shown;
        try {
            while (run.engine.state.step < steps) {
                try {
                    auto report = run_step(run.engine, team_.worker(number), data, run.window(), run.stop);
                    if (!report) {
                        break;
                    }
                    shown.reports.push_back(*std::move(report));
                } catch (const WorkerLost&) {  // the others go on
                }
            }
        } catch (const BreakingLoader::Broken&) {
            team_.leave(number);
            return {};
        } catch (...) {
            team_.leave(number);
            throw;
        }
        shown.hash = run.engine.weights_hash();
        return shown;
    }

    // A thread for each.
    template <class Action>
    Shown together(const Action& action) {
        std::vector<std::future<Shown>> all;
        for (size_t number = 0; number < runs_.size(); ++number) {
            all.push_back(std::async(std::launch::async, [&action, number] { return action(number); }));
        }
        Shown first;
        for (auto& one : all) {
            Shown shown = one.get();
            if (first.hash.empty()) {
                first = std::move(shown);
            } else if (!shown.hash.empty()) {
                EXPECT_EQ(texts_of(shown), texts_of(first)) << "workers show different things";
            }
        }
        return first;
    }

    std::vector<std::unique_ptr<TestRun>> runs_;
    Team team_;
};

using enum Sharing::TakingBack;

std::vector<Sharing> sharings() {
    return {{.shares = {1, 1}, .taking_back = never},    {.shares = {5, 1}, .taking_back = never},
            {.shares = {1, 0}, .taking_back = always},   {.shares = {1, 1, 1}, .taking_back = never},
            {.shares = {1, 0, 6}, .taking_back = never}, {.shares = {1, 0, 0}, .taking_back = always}};
}

std::string text_of(const Sharing& sharing) {
    std::string text = "shares";
    for (const int64_t share : sharing.shares) {
        text += cat(" ", share);
    }
    return text + (sharing.taking_back == always ? ", taken back" : "");
}

// Windows of 7 samples in epochs of 30: ragged lengths, a sample that counts nothing, a short last grain, a short last
// window.
class WorkersTest : public ::testing::Test {
protected:
    WorkersTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] Settings settings() const { return small_settings(golden("llama"), folder_ / "data.safetensors"); }

    // From the first step to some steps behind the end of an epoch.
    static constexpr int64_t kSteps = 8;

    static void expect_as_alone(
        const Settings& settings, const Workforce::Settle& settle = [](TestRun&) {}) {
        TestRun one(settings, 1);
        settle(one);
        const std::vector<std::string> expected = texts_of(alone(one, kSteps));
        for (const Sharing& sharing : sharings()) {
            Workforce workers(settings, sharing);
            workers.each(settle);
            EXPECT_EQ(texts_of(workers.run(kSteps)), expected) << text_of(sharing);
            if (sharing.taking_back == always) {
                EXPECT_GE(workers.team().taken_back(), kSteps - 2)
                    << "only a window of one grain leaves nothing to take";
            }
        }
    }

    TemporaryFolder folder_;
};

TEST_F(WorkersTest, AnyNumberWithAnyShareGivesTheBitsAndMetricsOfOne) {
    expect_as_alone(settings());
}

TEST_F(WorkersTest, SoItIsWithDropoutAndTiedWeightsInBf16) {
    copy_model("gpt2", folder_ / "model", {{"resid_pdrop", "0.1"}, {"embd_pdrop", "0.1"}, {"attn_pdrop", "0.1"}});
    Settings dropout = small_settings(folder_ / "model", folder_ / "data.safetensors");
    dropout.compute.dtype = DType::bf16;
    expect_as_alone(dropout);
}

TEST_F(WorkersTest, SoItIsWhereRateAndBeta2FollowTheTokensOfAWindow) {
    Settings tokens = settings();
    tokens.window.samples = 0;
    tokens.window.tokens = 60;
    tokens.optimizer.rate_samples = 4;
    tokens.optimizer.beta2_half_life_tokens = 500;
    expect_as_alone(tokens);
    tokens.window.last = WindowSize::Last::dropped;
    expect_as_alone(tokens);
}

// Units far too fine for the second window.
TEST_F(WorkersTest, SoItIsWithAReplay) {
    const auto make_finer = [](TestRun& run) {
        run.engine.state.units = Units(std::vector<int32_t>(run.engine.sum.tensors().size(), -90));
    };
    TestRun one(settings(), 1);
    make_finer(one);
    const Shown shown = alone(one, 2);
    ASSERT_GE(shown.reports[0].replays, 1);
    expect_as_alone(settings(), make_finer);
}

// The last position's embedding is so large that a sample of full length gives infinities.
TEST_F(WorkersTest, SoItIsWithGrainsThatAreNotFinite) {
    copy_model("gpt2", folder_ / "model", {}, [](const std::string& name, std::vector<float>& values) {
        if (name == "transformer.wpe.weight") {
            std::fill(values.begin() + 22 * 32, values.begin() + 23 * 32, 3e38F);
        }
    });
    Settings broken = small_settings(folder_ / "model", folder_ / "data.safetensors");
    broken.window.samples = 3;
    broken.window.grain_samples = 1;
    TestRun one(broken, 1);
    const Shown shown = alone(one, kSteps);
    const auto is_skipped = [](const StepReport& report) { return report.skipped; };
    ASSERT_TRUE(std::any_of(shown.reports.begin(), shown.reports.end(), is_skipped));
    ASSERT_FALSE(std::all_of(shown.reports.begin(), shown.reports.end(), is_skipped));
    expect_as_alone(broken);
}

// A head so large that gradients do not fit into fp16 until the loss scale has fallen a few times.
TEST_F(WorkersTest, SoItIsWhereTheLossScaleFallsAndRises) {
    copy_model("llama", folder_ / "model", {}, [](const std::string& name, std::vector<float>& values) {
        if (name == "lm_head.weight") {
            std::for_each(values.begin(), values.end(), [](float& value) { value *= 10; });
        }
    });
    Settings fp16 = small_settings(folder_ / "model", folder_ / "data.safetensors");
    fp16.compute.device = device_of_fp16();
    fp16.compute.dtype = DType::fp16;
    fp16.compute.loss_scale = LossScale::kLargest;
    fp16.compute.loss_scale_steps = 2;
    TestRun one(fp16, 1);
    const Shown shown = alone(one, kSteps);
    EXPECT_TRUE(shown.reports.front().lowers_loss_scale);
    EXPECT_FALSE(shown.reports.back().skipped && shown.reports[kSteps - 2].skipped);
    expect_as_alone(fp16);
}

// The second worker stops when it has computed two of a window's four grains; others may have computed theirs.
class StoppedWorkersTest : public WorkersTest {
protected:
    static constexpr int64_t kBefore = 2;

    // In the window of step `kBefore` + 1. Its grains are all with one of them.
    void stop_in_a_window(Workforce& workers) const {
        (void)workers.run(kBefore);
        workers.run_until_stopped(1, 1);
        int64_t keepers = 0;
        for (size_t number = 0; number < workers.size(); ++number) {
            const Engine& engine = workers[number].engine;
            ASSERT_EQ(engine.state.step, kBefore);
            ASSERT_TRUE(engine.state.open);
            const std::vector<std::byte> sums = bytes_of(engine.sum.source());
            const bool is_zero =
                std::all_of(sums.begin(), sums.end(), [](std::byte byte) { return byte == std::byte{0}; });
            EXPECT_EQ(is_zero, engine.finished_grains() == 0);
            keepers += is_zero ? 0 : 1;
        }
        EXPECT_EQ(keepers, 1);
        EXPECT_GE(workers[0].engine.finished_grains(), 1);
        EXPECT_LT(workers[0].engine.finished_grains(), 4);
    }
    [[nodiscard]] std::string bits_of_one() const { return TestRun(settings(), 1).run(kSteps); }
};

TEST_F(StoppedWorkersTest, WhoGoesOnInTheSameProcessCountsNothingTwice) {
    const std::string expected = bits_of_one();
    for (const std::vector<int64_t>& shares : {std::vector<int64_t>{1, 3}, {0, 1}, {1, 3, 1}}) {
        Workforce workers(settings(), {.shares = shares});
        stop_in_a_window(workers);
        EXPECT_EQ(workers.run(kSteps).hash, expected);
    }
}

TEST_F(StoppedWorkersTest, TheKeepersCheckpointHasEverythingForAnyNumberOfWorkers) {
    const std::string expected = bits_of_one();
    Workforce stopped(settings(), {.shares = {1, 3, 0}});
    stop_in_a_window(stopped);
    const std::string definition = definition_of(stopped[0].inputs, stopped[0].engine.model->parameters());
    save_state(stopped[0].engine, definition, folder_ / "keeper");
    save_state(stopped[1].engine, definition, folder_ / "other");
    const auto load = [&](TestRun& run, const std::string& from) {
        load_state(run.engine, definition, checkpoint_path(folder_ / from, kBefore));
    };
    TestRun one(settings(), 2);
    load(one, "keeper");
    EXPECT_EQ(one.engine.finished_grains(), stopped[0].engine.finished_grains());
    EXPECT_EQ(one.run(kSteps), expected);

    for (const std::vector<int64_t>& shares : {std::vector<int64_t>{1, 1}, {1, 1, 1}}) {
        Workforce resumed(settings(), {.shares = shares});
        for (size_t number = 0; number < resumed.size(); ++number) {
            load(resumed[number], number == 1 ? "keeper" : "other");
        }
        EXPECT_EQ(resumed.run(kSteps).hash, expected) << shares.size() << " workers";
    }
}

TEST_F(StoppedWorkersTest, AStopThatComesWithTheLastGrainLeavesNoWindowOpen) {
    Workforce workers(settings(), {.shares = {0, 1}});
    (void)workers.run(kBefore);
    workers.run_until_stopped(1, 2);  // of two micro-batches of two grains
    for (size_t number = 0; number < workers.size(); ++number) {
        EXPECT_EQ(workers[number].engine.state.step, kBefore + 1);
        EXPECT_EQ(workers[number].engine.finished_grains(), 0);
    }
    EXPECT_EQ(workers.run(kSteps).hash, bits_of_one());
}

TEST_F(WorkersTest, WhoIsLostInAWindowIsReplacedByTheOthers) {
    const std::string expected = TestRun(settings(), 1).run(kSteps);
    for (const Sharing& sharing : {Sharing{.shares = {1, 3}}, Sharing{.shares = {1, 1, 2}},
                                   Sharing{.shares = {1, 0, 0}, .taking_back = always}}) {
        for (const size_t lost : {size_t{0}, sharing.shares.size() - 1}) {
            Workforce workers(settings(), sharing);
            (void)workers.run(1);
            EXPECT_EQ(workers.run_and_lose(lost, 3, kSteps).hash, expected) << text_of(sharing) << " without " << lost;
        }
    }
}

}  // namespace
}  // namespace accrue::testing
