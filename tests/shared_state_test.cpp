// Workers that share the state of a run: what each keeps is found again, or given up for the checkpoint, but never wrong.

#include <sstream>

#include "tests/team_run.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/random.h"
#include "accrue/dist/range_keepers.h"
#include "accrue/train/planner.h"
#include "accrue/train/team/state_sharing.h"

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
        settings.compute.dtype = DType::bf16;  // shares most
        return settings;
    }
    void expect_the_bits_of(const std::string& alone, const std::string& run) const {
        EXPECT_EQ(weights(run), weights(alone)) << run;
        EXPECT_EQ(metrics(run), metrics(alone)) << run;
    }
    void expect_the_bits_of_one_process(const std::string& run) const { expect_the_bits_of("alone", run); }
};

TEST_F(SharedStateTest, FormatsAndNumbersOfWorkersKeepTheirBits) {
    struct Format {
        DType dtype;
        MomentFormat moments;
        bool tied;  // the head's weights are read in both formats
    };
    for (const auto& [dtype, moments, tied] : {Format{DType::fp32, MomentFormat::fp32, false},
                                               {DType::bf16, MomentFormat::eight_bits, false},
                                               {DType::bf16, MomentFormat::fp32, true}}) {
        const std::string name = cat(word_of(dtype), "-", word_of(moments), tied ? "-tied" : "");
        Settings job = settings(name + "-alone");
        job.compute.dtype = dtype;
        job.optimizer.moments = moments;
        job.model.shape.tied = tied;
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

// Each worker and parameter: 8 bytes of sums; of new weights, as forward reads them, 2 or 4 to each of the others, from one of them.
TEST_F(SharedStateTest, AWindowSendsWhatTheFormulaSays) {
    struct Case {
        DType dtype;
        int64_t workers;
        double weight_bytes;
    };
    for (const auto& [dtype, workers, weight_bytes] :
         {Case{DType::fp32, 3, 4}, {DType::bf16, 3, 2}, {DType::bf16, 5, 2}}) {
        const std::string run = cat(word_of(dtype), workers);
        Settings job = settings(run);
        job.compute.dtype = dtype;
        job.model.shape.ffn = 4000;  // nearly all of it is read by products alone
        job.schedule.steps = 3;
        (void)train_by(std::vector<Fate>(static_cast<size_t>(workers), kNeverKilled), job);
        const std::shared_ptr<const ModelSpec> model = open_inputs(job).model;
        const auto parameters = static_cast<double>(model->parameters().elements());
        const auto planned = static_cast<double>(exchange_of(job, *model, workers).all_sent_bytes);
        const double others = static_cast<double>(workers - 1) / static_cast<double>(workers);
        const double expected = 8 + weight_bytes * others;
        std::istringstream lines(read_text(folder_ / run / "metrics.jsonl"));
        int64_t windows = 0;
        for (std::string line; std::getline(lines, line); ++windows) {
            const double sent = nlohmann::json::parse(line).at("exchange_bytes");
            EXPECT_NEAR(sent / (static_cast<double>(workers) * parameters), expected, 0.05 * expected) << run;
            EXPECT_NEAR(sent, planned, 0.02 * planned) << run;
        }
        EXPECT_EQ(windows, 3);
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
        EXPECT_THAT(read_text(folder_ / run / "metrics.jsonl"), Not(HasSubstr("\"micro_batches\":0"))) << run;
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
    const auto settings_in = [&](DType dtype, const std::string& run) {
        Settings job = settings(run);
        job.compute.dtype = dtype;
        return job;
    };
    for (uint64_t run = 0; run < 5; ++run) {
        const DType dtype = run % 3 == 2 ? DType::fp32 : DType::bf16;
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
        const std::string alone = cat("alone-", word_of(dtype));
        if (!std::filesystem::exists(folder_ / alone)) {
            (void)train_alone(settings_in(dtype, alone));
        }
        (void)train_by(fates, settings_in(dtype, cat("run", run)));
        expect_the_bits_of(alone, cat("run", run));
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

// In bf16 with AdamW a parameter takes 8 bytes of moments, 4 of its fp32 and 2 of its copy: all of the first are shared, and the second
// of what only products read.
TEST_F(SharedStateTest, WorkersPlanWithoutWhatOthersKeep) {
    Settings job = settings("plan");
    job.model.shape.ffn = 4000;
    const RunInputs inputs = open_inputs(job);
    const auto planned = [&](DType dtype, const StateSharing& sharing) {
        Settings with = inputs.settings;
        with.compute.dtype = dtype;
        return Planner(with, inputs.model, inputs.longest_sample(), 1, sharing).unlimited().parts;
    };
    const auto share_of = [](int64_t part, int64_t all) {
        return static_cast<double>(part) / static_cast<double>(all);
    };
    const StateSharing eight{.ranges = 8, .copies = 2};
    const StateSharing four{.ranges = 4, .copies = 2};
    const StateSharing none{.ranges = 2, .copies = 2};
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        const ArenaParts all = planned(dtype, {});
        EXPECT_NEAR(share_of(planned(dtype, eight).moments, all.moments), 0.25, 0.15);
        EXPECT_NEAR(share_of(planned(dtype, four).moments, all.moments), 0.5, 0.1);
        EXPECT_EQ(planned(dtype, none).moments, all.moments);
        EXPECT_EQ(planned(dtype, none).weights, all.weights);
        if (dtype == DType::fp32) {
            EXPECT_EQ(planned(dtype, eight).weights, all.weights);
            continue;
        }
        const double read =
            share_of(places_beside_copy(inputs.model->parameters()).elements, inputs.model->parameters().flat_elements);
        EXPECT_NEAR(share_of(planned(dtype, eight).weights, all.weights), read + 0.25, 0.05);
        EXPECT_NEAR(share_of(planned(dtype, four).weights, all.weights), read + 0.5, 0.05);
        EXPECT_LT(planned(dtype, eight).weights, all.weights / 2);
        EXPECT_EQ(planned(dtype, eight).copy, all.copy);
    }
}

}  // namespace
}  // namespace accrue::testing
