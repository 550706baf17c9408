// What workers compute is what one process computes, whatever becomes of them.

#include "tests/team_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue::testing {
namespace {

// With its state shared out, and with all of it everywhere.
class TeamRunTest : public TeamRun, public ::testing::TestWithParam<WorkersState> {
protected:
    [[nodiscard]] Settings settings(const std::string& run) const {
        Settings settings = TeamRun::settings(run);
        settings.workers.state = GetParam();
        return settings;
    }
};
INSTANTIATE_TEST_SUITE_P(States, TeamRunTest, ::testing::Values(WorkersState::shared, WorkersState::everywhere),
                         [](const auto& state) { return std::string(word_of(state.param)); });

TEST_P(TeamRunTest, AnyNumberOfWorkersGivesTheFilesOfOneProcess) {
    (void)train_alone(settings("alone"));
    // One and two have everything anyway.
    for (const size_t workers :
         GetParam() == WorkersState::shared ? std::vector<size_t>{3, 8} : std::vector<size_t>{1, 2, 3, 5}) {
        const std::string run = cat("team", workers);
        const TrainSummary summary = train_by(std::vector<Fate>(workers, kNeverKilled), settings(run));
        EXPECT_EQ(summary.step, 5);
        EXPECT_TRUE(summary.validation_after.has_value());
        EXPECT_EQ(weights(run), weights("alone")) << workers << " workers";
        EXPECT_EQ(metrics(run), metrics("alone")) << workers << " workers";
    }
}

TEST_P(TeamRunTest, NumberFormatsKeepTheirBitsToo) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        for (const MomentFormat moments : {MomentFormat::fp32, MomentFormat::eight_bits}) {
            const std::string name = cat(word_of(dtype), "-", word_of(moments));
            Settings job = settings(name + "-alone");
            job.compute.dtype = dtype;
            job.optimizer.moments = moments;
            (void)train_alone(job);
            job.run.folder = (folder_ / name).string();
            (void)train_by({kNeverKilled, kNeverKilled}, job);
            EXPECT_EQ(weights(name), weights(name + "-alone")) << name;
            EXPECT_EQ(metrics(name), metrics(name + "-alone")) << name;
        }
    }
}

// Dropout draws its masks from who a row is, and a window that is not finite is skipped: by everybody alike.
TEST_P(TeamRunTest, DropoutAndSkippedWindowsAreThoseOfOneProcess) {
    copy_model("gpt2", folder_ / "model", {{"resid_pdrop", "0.1"}, {"embd_pdrop", "0.1"}, {"attn_pdrop", "0.1"}},
               [](const std::string& name, std::vector<float>& values) {
                   if (name == "transformer.wpe.weight") {  // the last position's, which few samples reach
                       std::fill(values.begin() + 22 * 32, values.begin() + 23 * 32, 3e38F);
                   }
               });
    Settings job = settings("alone");
    job.model.from = (folder_ / "model").string();
    job.data.validation.clear();
    job.window.samples = 1;
    job.window.grain_samples = 1;
    job.schedule.steps = 5;
    (void)train_alone(job);
    job.run.folder = (folder_ / "team").string();
    (void)train_by({kNeverKilled, 40, kNeverKilled}, job);
    EXPECT_EQ(killed_, 1);
    EXPECT_THAT(metrics("alone"), ::testing::Contains(::testing::HasSubstr("\"skipped\":true")));
    EXPECT_EQ(weights("team"), weights("alone"));
    EXPECT_EQ(metrics("team"), metrics("alone"));
}

TEST_P(TeamRunTest, ARunThatIsStoppedGoesOnWithOtherWorkersAndWithNone) {
    (void)train_alone(settings("alone"));
    for (const int64_t call : {20, 33, 47}) {
        const std::string run = cat("stopped-", call);
        const auto stop_and_go_on = [&](size_t workers) {
            StopFlag stop{false};
            team_.stop_at = {.call = call, .flag = &stop};
            const TrainSummary stopped = train_by(std::vector<Fate>(workers, kNeverKilled), settings(run), stop);
            team_.stop_at = {};
            return stopped.end;
        };
        EXPECT_EQ(stop_and_go_on(2), TrainSummary::End::stopped);
        (void)stop_and_go_on(3);
        (void)train_alone(settings(run));
        EXPECT_EQ(weights(run), weights("alone")) << run;
        EXPECT_EQ(metrics(run), metrics("alone")) << run;
    }
}

// A worker of three, or the only one, is killed at calls from its first to some in the last steps.
TEST_P(TeamRunTest, AWorkerThatIsKilledAnywhereChangesNoBit) {
    (void)train_alone(settings("alone"));
    int64_t killed = 0;
    for (int64_t call = 1; call < 160; call += 13) {
        for (const bool has_others : {true, false}) {
            if (GetParam() == WorkersState::shared && !has_others) {
                continue;  // it has everything
            }
            const std::string run = cat("killed-", call, has_others ? "-of-3" : "-alone");
            (void)train_by(has_others ? std::vector<Fate>{call, kNeverKilled, kNeverKilled} : std::vector<Fate>{call},
                           settings(run));
            killed += killed_;
            EXPECT_EQ(weights(run), weights("alone")) << run;
            EXPECT_EQ(metrics(run), metrics("alone")) << run;
        }
    }
    EXPECT_GT(killed, GetParam() == WorkersState::shared ? 7 : 14) << "most calls come";
}

// Also while several threads of the leader read what a checkpoint is to hold: none of them goes on waiting for workers.
TEST_P(TeamRunTest, AWorkerThatFailsAnywhereEndsTheRun) {
    team_.death = Death::failed;
    int64_t failed = 0;
    for (int64_t call = 0; call < 100; call += 4) {
        Settings job = settings(cat("failed-", call));
        job.run.checkpoint_steps = 1;
        job.compute.threads = 3;
        try {
            (void)train_by({call}, job);
        } catch (const Failed&) {
            ++failed;
        } catch (const Error& error) {
            EXPECT_STREQ(error.what(), Failed().what());
            ++failed;
        }
    }
    EXPECT_GT(failed, 20) << "most calls come";
}

// It gets the state from the others, wherever they are in a window, and grains from then on.
TEST_P(TeamRunTest, OneThatJoinsInMidRunTakesPartAndChangesNoBit) {
    (void)train_alone(settings("alone"));
    for (const size_t workers : {1, 2}) {
        for (const int64_t call : {1, 5, 9, 13, 20, 30, 45}) {
            const std::string run = cat("joined-", call, "-of-", workers);
            team_.join_at_call = call;
            (void)train_by(std::vector<Fate>(workers, kNeverKilled), settings(run));
            EXPECT_EQ(joined_, 1) << run;
            EXPECT_EQ(weights(run), weights("alone")) << run;
            EXPECT_EQ(metrics(run), metrics("alone")) << run;
            EXPECT_THAT(read_text(folder_ / run / "metrics.jsonl"),
                        ::testing::HasSubstr(cat("\"workers\":", workers + 1, ",")))
                << run;
        }
    }
}

// It slept through a roster, in which the others went on: its weights may be older ones.
TEST_P(TeamRunTest, LossesFromAnotherRosterAreNotThoseOfTheValidation) {
    (void)train_alone(settings("alone"));
    team_.forges_validation = true;
    (void)train_by({kNeverKilled}, settings("team"));
    EXPECT_GE(forged_, 2) << "the validation was never disturbed";
    EXPECT_EQ(weights("team"), weights("alone"));
    EXPECT_EQ(metrics("team"), metrics("alone"));
}

TEST_P(TeamRunTest, AllOfThemKilledOneAfterAnotherGoOnFromTheLastCheckpoint) {
    Settings job = settings("alone");
    job.schedule.steps = 20;  // each of them makes more calls than it lives
    (void)train_alone(job);
    job.run.folder = (folder_ / "team").string();
    (void)train_by({40, 41, 60}, job);
    EXPECT_EQ(killed_, 3);
    EXPECT_EQ(weights("team"), weights("alone"));
    EXPECT_EQ(metrics("team"), metrics("alone"));
}

}  // namespace
}  // namespace accrue::testing
