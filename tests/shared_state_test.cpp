// Workers that share the state of a run: what each keeps is found again, or given up for the checkpoint, but never wrong.

#include <sstream>

#include "tests/team_run.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/random.h"
#include "accrue/dist/range_keepers.h"
#include "accrue/train/planner.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kBackToCheckpoint = "the state of the run are gone";

// Of a model whose tensors are cut: none of the others here has one of two blocks.
class SharedStateTest : public TeamRun, public ::testing::Test {
protected:
    [[nodiscard]] Settings settings(const std::string& run) const {
        Settings settings = TeamRun::settings(run);
        settings.model.from.clear();
        settings.model.preset = "tiny";
        settings.model.shape = {.layers = 1, .width = 48, .heads = 2, .key_heads = 2, .ffn = 400, .positions = 64};
        settings.data.tokenizer = golden("tokenizer-llama2").string();
        settings.data.validation.clear();
        settings.schedule.steps = 5;
        return settings;
    }
    void expect_the_bits_of_one_process(const std::string& run) const {
        EXPECT_EQ(weights(run), weights("alone")) << run;
        EXPECT_EQ(metrics(run), metrics("alone")) << run;
    }
};

TEST_F(SharedStateTest, FormatsAndNumbersOfWorkersKeepTheirBits) {
    for (const auto& [dtype, moments] :
         {std::pair(DType::fp32, MomentFormat::fp32), {DType::bf16, MomentFormat::eight_bits}}) {
        const std::string name = cat(word_of(dtype), "-", word_of(moments));
        Settings job = settings(name + "-alone");
        job.compute.dtype = dtype;
        job.optimizer.moments = moments;
        (void)train_alone(job);
        for (const size_t workers : {3, 4}) {
            job.run.folder = (folder_ / cat(name, workers)).string();
            (void)train_by(std::vector<Fate>(workers, kNeverKilled), job);
            EXPECT_EQ(weights(cat(name, workers)), weights(name + "-alone")) << name;
            EXPECT_EQ(metrics(cat(name, workers)), metrics(name + "-alone")) << name;
        }
    }
}

TEST_F(SharedStateTest, SgdSharesItsVelocityAndWhatHasNoneSharesUpdates) {
    for (const double momentum : {0.9, 0.0}) {
        const std::string name = cat("momentum", momentum);
        Settings job = settings(name + "-alone");
        job.optimizer.name = OptimizerKind::sgd;
        job.optimizer.momentum = momentum;
        (void)train_alone(job);
        job.run.folder = (folder_ / name).string();
        job.workers.copies = 1;
        (void)train_by({kNeverKilled, kNeverKilled}, job);
        EXPECT_EQ(weights(name), weights(name + "-alone"));
        EXPECT_EQ(metrics(name), metrics(name + "-alone"));
    }
}

// Each worker and parameter: 8 bytes of sums, 4 of new weights to each of the others, from one of them.
TEST_F(SharedStateTest, AWindowSendsWhatTheFormulaSays) {
    for (const int64_t workers : {3, 5}) {
        const std::string run = cat("team", workers);
        const Settings job = settings(run);
        (void)train_by(std::vector<Fate>(static_cast<size_t>(workers), kNeverKilled), job);
        const auto parameters = static_cast<double>(open_inputs(job).model->parameters().elements());
        const double others = static_cast<double>(workers - 1) / static_cast<double>(workers);
        std::istringstream lines(read_text(folder_ / run / "metrics.jsonl"));
        int64_t windows = 0;
        for (std::string line; std::getline(lines, line); ++windows) {
            const double sent = nlohmann::json::parse(line).at("exchange_bytes");
            EXPECT_NEAR(sent / (static_cast<double>(workers) * parameters), 8 + 4 * others, 0.05 * (8 + 4 * others));
        }
        EXPECT_EQ(windows, 5);
    }
}

// The others have made the update, or one of them has: whoever voted makes it too, and nothing is computed again.
TEST_F(SharedStateTest, AVerdictThatIsLostChangesNoBit) {
    (void)train_alone(settings("alone"));
    const Fate lost(Fate::AtVote::verdict_is_lost, 2);
    for (const std::vector<Fate>& fates :
         {std::vector<Fate>{lost, kNeverKilled, kNeverKilled}, {kNeverKilled, lost, lost}, {lost, lost, lost}}) {
        const std::string run =
            cat("lost-by-", std::ranges::count_if(fates, [](const Fate& fate) { return fate.vote >= 0; }));
        (void)train_by(fates, settings(run));
        expect_the_bits_of_one_process(run);
        EXPECT_THAT(output(), Not(HasSubstr(kBackToCheckpoint))) << run;
        EXPECT_THAT(output(), Not(HasSubstr("computed again"))) << run;
    }
}

// Between a verdict and the gathering of weights; with those who have not heard it.
TEST_F(SharedStateTest, AWorkerThatDiesWithTheVerdictLeavesItToTheSecondKeepers) {
    (void)train_alone(settings("alone"));
    const Fate dies(Fate::AtVote::killed_after, 2);
    const Fate lost(Fate::AtVote::verdict_is_lost, 2);
    int number = 0;
    for (const std::vector<Fate>& fates :
         {std::vector<Fate>{dies, kNeverKilled, kNeverKilled}, {dies, lost, kNeverKilled}, {dies, lost, lost}}) {
        const std::string run = cat("dies-", number++);
        (void)train_by(fates, settings(run));
        EXPECT_EQ(killed_, 1);
        expect_the_bits_of_one_process(run);
        EXPECT_THAT(output(), Not(HasSubstr(kBackToCheckpoint))) << run;
    }
}

// One at a time never takes the last copy of anything; when each part has one copy only, any death does.
TEST_F(SharedStateTest, OneDeathGoesBackToTheCheckpointOnlyWithoutASecondCopy) {
    (void)train_alone(settings("alone"));
    for (const int64_t copies : {2, 1}) {
        Settings job = settings(cat("killed-", copies));
        job.workers.copies = copies;
        (void)train_by({kNeverKilled, {Fate::AtVote::killed_after, 3}, kNeverKilled}, job);
        EXPECT_EQ(killed_, 1);
        expect_the_bits_of_one_process(cat("killed-", copies));
        EXPECT_EQ(output().find(kBackToCheckpoint) != std::string::npos, copies == 1);
    }
}

// Both keepers of a part at once.
TEST_F(SharedStateTest, APartWithoutAKeeperGoesBackToTheCheckpoint) {
    (void)train_alone(settings("alone"));
    const Fate dies(Fate::AtVote::killed_after, 3);
    (void)train_by({dies, dies, kNeverKilled, kNeverKilled}, settings("team"));
    EXPECT_EQ(killed_, 2);
    expect_the_bits_of_one_process("team");
    EXPECT_THAT(output(), HasSubstr(kBackToCheckpoint));
}

TEST_F(SharedStateTest, AnythingThatHappensToAnyoneChangesNoBit) {
    (void)train_alone(settings("alone"));
    for (uint64_t run = 0; run < 4; ++run) {
        uint64_t dice = mix(run, 0x73686172);
        const auto roll = [&](int64_t sides) {
            return static_cast<int64_t>((dice = mix(dice)) % static_cast<uint64_t>(sides));
        };
        std::vector<Fate> fates;
        for (int64_t worker = 0; worker < 3 + roll(3); ++worker) {
            switch (roll(4)) {
                case 0:
                    fates.emplace_back(20 + roll(100));
                    break;
                case 1:
                    fates.emplace_back(Fate::AtVote::killed_after, roll(5));
                    break;
                case 2:
                    fates.emplace_back(Fate::AtVote::verdict_is_lost, roll(5));
                    break;
                default:
                    fates.emplace_back(kNeverKilled);
            }
        }
        (void)train_by(fates, settings(cat("run", run)));
        expect_the_bits_of_one_process(cat("run", run));
    }
}

TEST_F(SharedStateTest, ARunGoesOnWithOtherNumbersAndInTheOtherState) {
    Settings whole = settings("alone");
    whole.schedule.steps = 8;
    (void)train_alone(whole);
    Settings job = settings("team");
    job.schedule.steps = 2;
    job.run.checkpoint_steps = 0;
    (void)train_by({kNeverKilled, kNeverKilled, kNeverKilled}, job);
    job.schedule.steps = 4;
    (void)train_by(std::vector<Fate>(5, kNeverKilled), job);
    job.schedule.steps = 5;
    job.workers.state = WorkersState::everywhere;
    (void)train_by({kNeverKilled, kNeverKilled, kNeverKilled}, job);
    job.schedule.steps = 6;
    (void)train_alone(job);
    job.schedule.steps = 8;
    job.workers.state = WorkersState::shared;
    job.workers.copies = 1;
    (void)train_by({kNeverKilled, kNeverKilled}, job);
    EXPECT_EQ(weights("team"), weights("alone"));
}

// Whose sums one process then goes on with. Of so many grains some are left when the workers hear of it.
TEST_F(SharedStateTest, AStopInsideAWindowKeepsItsSums) {
    const auto long_windows = [&](const std::string& run) {
        Settings job = settings(run);
        job.window.samples = 20;
        job.window.grain_samples = 1;
        job.schedule.steps = 3;
        return job;
    };
    (void)train_alone(long_windows("alone"));
    int64_t open_windows = 0;
    for (int64_t call = 30; call < 60 && open_windows < 3; ++call) {
        const std::string run = cat("stopped-", call);
        StopFlag stop{false};
        team_.stop_at = {.call = call, .flag = &stop};
        const TrainSummary stopped = train_by(std::vector<Fate>(3, kNeverKilled), long_windows(run), stop);
        team_.stop_at = {};
        if (stopped.grains_of_open_window > 0) {
            ++open_windows;
            (void)train_alone(long_windows(run));
            expect_the_bits_of_one_process(run);
        }
    }
    EXPECT_GT(open_windows, 0);
}

// 8 bytes of each parameter are moments.
TEST_F(SharedStateTest, WorkersPlanWithoutTheMomentsThatOthersKeep) {
    const Settings job = settings("plan");
    const RunInputs inputs = open_inputs(job);
    const auto planned = [&](const StateSharing& sharing) {
        return Planner(inputs.settings, inputs.model, inputs.longest_sample(), 1, sharing).unlimited().parts.moments;
    };
    const int64_t all = planned({});
    EXPECT_NEAR(static_cast<double>(planned({.ranges = 8, .copies = 2})) / static_cast<double>(all), 0.25, 0.15);
    EXPECT_NEAR(static_cast<double>(planned({.ranges = 4, .copies = 2})) / static_cast<double>(all), 0.5, 0.1);
    EXPECT_EQ(planned({.ranges = 2, .copies = 2}), all);
}

}  // namespace
}  // namespace accrue::testing
