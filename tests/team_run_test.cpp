// Whole runs whose steps workers compute: threads of this process, each with an engine of its own, that know nothing but what their
// leader says.

#include "tests/support.h"
#include "tests/team_threads.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/team/team_leader.h"
#include "accrue/train/trainer.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

// With its state shared out, and with all of it everywhere.
class TeamRunTest : public ::testing::TestWithParam<WorkersState> {
protected:
    TeamRunTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] Settings settings(const std::string& run) const {
        Settings settings = small_settings(golden("llama-tied"), folder_ / "data.safetensors");
        settings.data.validation = {(folder_ / "data.safetensors").string()};
        settings.schedule.steps = 5;
        settings.run.checkpoint_steps = 2;
        settings.run.evaluate_steps = 2;
        settings.run.folder = (folder_ / run).string();
        settings.compute.threads = 1;
        settings.workers.state = GetParam();
        return settings;
    }

    // Alone, or by workers, each of which is killed at one of its calls.
    TrainSummary train_alone(const Settings& settings, const StopFlag& stop = kNever) const {
        return train_with(settings, stop, {});
    }
    TrainSummary train_by(std::vector<int64_t> deaths, const Settings& settings, const StopFlag& stop = kNever) {
        CoordinatorDesk desk({.least_workers = std::ssize(deaths)});
        const int64_t workers = std::ssize(deaths);
        team_.deaths = std::move(deaths);
        Threads threads(desk, team_);
        TeamLeader leader(desk, threads, {.workers = workers});
        const TrainSummary summary = train_with(settings, stop, {.team = &leader});
        desk.close();
        killed_ = threads.killed();
        joined_ = threads.joined();
        forged_ = threads.forged();
        return summary;
    }
    TrainSummary train_with(const Settings& settings, const StopFlag& stop, const TrainOptions& options) const {
        const RunInputs inputs = open_inputs(settings);
        RunClaim claim = fs::exists(settings.run.folder) ? RunClaim::of_run(settings.run.folder, Overwrite::no)
                                                         : RunClaim::of_new_run(settings, {}, Overwrite::no);
        std::FILE* const out = std::fopen((folder_ / "out.txt").c_str(), "w");
        Progress progress(out, false, settings.schedule.steps);
        const TrainSummary summary = train(inputs, claim, progress, stop, options);
        std::fclose(out);
        return summary;
    }
    [[nodiscard]] std::string weights(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors").substr(0, 64);
    }
    [[nodiscard]] std::vector<std::string> metrics(const std::string& run) const {
        return comparable_metrics(folder_ / run / "metrics.jsonl", MicroBatches::ignore);
    }

    static constexpr StopFlag kNever{false};
    TemporaryFolder folder_;
    // Of the last run.
    int64_t killed_ = 0;
    int64_t joined_ = 0;
    int64_t forged_ = 0;
    ThreadsOptions team_;  // of the next one; without the deaths
};

INSTANTIATE_TEST_SUITE_P(States, TeamRunTest, ::testing::Values(WorkersState::shared, WorkersState::everywhere),
                         [](const auto& state) { return std::string(word_of(state.param)); });

TEST_P(TeamRunTest, AnyNumberOfWorkersGivesTheFilesOfOneProcess) {
    (void)train_alone(settings("alone"));
    for (const size_t workers : {1, 2, 3, 5, 8}) {
        const std::string run = cat("team", workers);
        const TrainSummary summary = train_by(std::vector<int64_t>(workers, kNeverKilled), settings(run));
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
    (void)train_by({kNeverKilled, 40}, job);
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
            const TrainSummary stopped = train_by(std::vector<int64_t>(workers, kNeverKilled), settings(run), stop);
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
            const std::string run = cat("killed-", call, has_others ? "-of-3" : "-alone");
            (void)train_by(has_others ? std::vector<int64_t>{call, kNeverKilled, kNeverKilled} : std::vector{call},
                           settings(run));
            killed += killed_;
            EXPECT_EQ(weights(run), weights("alone")) << run;
            EXPECT_EQ(metrics(run), metrics("alone")) << run;
        }
    }
    EXPECT_GT(killed, 14) << "most calls come";
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
            (void)train_by(std::vector<int64_t>(workers, kNeverKilled), settings(run));
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
