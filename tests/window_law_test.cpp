// The law where windows are not as large as asked: dropped, or short with a rate of their own.

#include <cmath>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/state.h"

namespace accrue::testing {
namespace {

// Epochs of 30 samples that neither windows of 7 samples nor of 60 tokens divide.
class WindowLawTest : public ::testing::TestWithParam<std::string> {
protected:
    WindowLawTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] Settings settings() const {
        Settings settings = small_settings(golden("llama"), folder_ / "data.safetensors");
        settings.optimizer.rate_samples = 4;
        const std::string& kind = GetParam();
        if (kind.ends_with("tokens")) {
            settings.window.samples = 0;
            settings.window.tokens = 60;
        }
        settings.window.last = kind.starts_with("drop") ? WindowSize::Last::dropped : WindowSize::Last::kept;
        return settings;
    }

    TemporaryFolder folder_;
};

constexpr int64_t kStepsBeyondAnEpoch = 8;

TEST_P(WindowLawTest, CutsAndThreadsKeepTheBits) {
    const std::string expected = TestRun(settings(), 1).run(kStepsBeyondAnEpoch);
    for (const auto& [threads, grains] : {std::pair{1, 3}, {2, 1}, {3, 100}}) {
        Settings cut_otherwise = settings();
        cut_otherwise.window.micro_batch_grains = grains;
        TestRun run(cut_otherwise, threads);
        EXPECT_EQ(run.run(kStepsBeyondAnEpoch), expected) << threads << " threads, " << grains << " grains";
        EXPECT_GE(run.engine.state.position.epoch, 1) << "the end of an epoch was not reached";
    }
}

TEST_P(WindowLawTest, AProcessThatEndsInsideEachWindowLeavesAllToTheNextOne) {
    const std::string expected = TestRun(settings(), 1).run(kStepsBeyondAnEpoch);
    int64_t stops = 0;
    auto run = std::make_unique<TestRun>(settings(), 1);
    while (run->engine.state.step < kStepsBeyondAnEpoch) {
        run->stop = false;
        const bool is_open = run->engine.state.open.has_value();
        const auto report = is_open ? run->step() : run_step(run->engine, StopsInside(*run), run->window(), run->stop);
        const std::string definition = definition_of(run->inputs, run->engine.model->parameters());
        const TemporaryFolder disk;
        const auto checkpoint = checkpoint_path(disk.path(), run->engine.state.step);
        save_state(run->engine, definition, disk.path());
        stops += report ? 0 : 1;
        run = std::make_unique<TestRun>(settings(), 2);
        load_state(run->engine, definition, checkpoint);
        run->engine.rules.micro_batch_grains = run->engine.state.open ? 2 : 1;
    }
    EXPECT_EQ(run->engine.weights_hash(), expected);
    EXPECT_GE(stops, kStepsBeyondAnEpoch - 2) << "only a window of one grain has no inside";
}

INSTANTIATE_TEST_SUITE_P(Windows, WindowLawTest,
                         ::testing::Values("drop_samples", "drop_tokens", "short_samples", "short_tokens"),
                         [](const auto& info) { return info.param; });

class ShortWindowTest : public ::testing::Test {
protected:
    ShortWindowTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        settings_ = small_settings(golden("llama"), folder_ / "data.safetensors");
    }
    // The rates of the windows of an epoch, the last of which is short.
    [[nodiscard]] std::vector<StepReport> first_epoch() const {
        TestRun run(settings_, 2);
        std::vector<StepReport> reports;
        while (run.engine.state.position.epoch == 0) {
            reports.push_back(*run.step());
        }
        return reports;
    }

    TemporaryFolder folder_;
    Settings settings_;
};

TEST_F(ShortWindowTest, TheRateFollowsTheSamplesOfAShortWindow) {
    settings_.optimizer.rate_samples = 28;  // four times the window
    for (const auto& [rule, whole, last] : {std::tuple{RateRule::sqrt, 0.5, std::sqrt(2.0 / 28)},
                                            {RateRule::linear, 0.25, 2.0 / 28},
                                            {RateRule::none, 1.0, 1.0}}) {
        settings_.optimizer.rate_rule = rule;
        const std::vector<StepReport> reports = first_epoch();
        ASSERT_EQ(reports.size(), 5U);
        for (size_t i = 0; i < 4; ++i) {
            EXPECT_DOUBLE_EQ(reports[i].rate, settings_.optimizer.rate * whole) << word_of(rule);
        }
        EXPECT_EQ(reports[4].window.samples, 2);
        EXPECT_DOUBLE_EQ(reports[4].rate, settings_.optimizer.rate * last) << word_of(rule);
    }
}

TEST_F(ShortWindowTest, TheRateFollowsTheTokensOfAShortWindowAndNotThoseBeyondTheSize) {
    settings_.window.samples = 0;
    settings_.window.tokens = 60;
    settings_.optimizer.rate_samples = 7;
    settings_.optimizer.rate_rule = RateRule::linear;
    const std::vector<StepReport> reports = first_epoch();
    const double whole = reports.front().rate;
    bool goes_beyond = false;
    for (size_t i = 0; i + 1 < reports.size(); ++i) {
        goes_beyond = goes_beyond || reports[i].tokens > 60;
        EXPECT_EQ(reports[i].rate, whole) << reports[i].tokens << " tokens";
    }
    EXPECT_TRUE(goes_beyond);
    ASSERT_LT(reports.back().tokens, 60);
    ASSERT_GT(reports.back().tokens, 0);
    EXPECT_DOUBLE_EQ(reports.back().rate, whole * static_cast<double>(reports.back().tokens) / 60);
}

TEST_F(ShortWindowTest, ARateThatWasTunedForNoWindowIsTakenAsItIs) {
    for (const StepReport& report : first_epoch()) {
        EXPECT_EQ(report.rate, settings_.optimizer.rate);
    }
}

TEST_F(ShortWindowTest, AnEpochWithoutItsLastWindowHasOneStepLess) {
    settings_.window.last = WindowSize::Last::dropped;
    EXPECT_EQ(first_epoch().size(), 4U);
    EXPECT_TRUE(first_epoch().back().window.ends_epoch);
    settings_.window.last = WindowSize::Last::kept;
    EXPECT_EQ(first_epoch().size(), 5U);
}

TEST_F(ShortWindowTest, ACheckpointMadeWithAnotherLastWindowIsRefusedAndAnOlderOneHadShortWindows) {
    TestRun run(settings_, 1);
    (void)run.run(1);
    // As written before there was a choice.
    std::string older = definition_of(run.inputs, run.engine.model->parameters());
    const std::string entry = "\"window.last\":\"short\",";
    ASSERT_NE(older.find(entry), std::string::npos);
    older.erase(older.find(entry), entry.size());
    save_state(run.engine, older, folder_.path());
    load_state(run.engine, definition_of(run.inputs, run.engine.model->parameters()), folder_ / "step-1");

    settings_.window.last = WindowSize::Last::dropped;
    TestRun other(settings_, 1);
    try {
        load_state(other.engine, definition_of(other.inputs, other.engine.model->parameters()), folder_ / "step-1");
        FAIL() << "it was taken";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("it was made with window.last = \"short\", this run has \"drop\""),
                  std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace accrue::testing
