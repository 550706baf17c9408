// Whole runs whose steps workers compute: threads of this process, each with an engine of its own, that know nothing but what their
// leader says.

#include <atomic>
#include <deque>
#include <future>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/dist/in_process_link.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/team/team_leader.h"
#include "accrue/train/team/team_worker.h"
#include "accrue/train/trainer.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

// What a worker that is killed leaves behind.
class Killed final : public std::exception {};

// When the run is told to stop: at that call of its first worker.
struct StopAt {
    int64_t call = -1;
    StopFlag* flag = nullptr;
};

// Kills its worker at one of its calls, or tells the run to stop.
class MortalLink final : public Link {
public:
    MortalLink(Link& link, int64_t last_call, const StopAt& stop)
        : link_(link),
          is_mortal_(last_call >= 0),
          calls_left_(last_call),
          calls_to_stop_(stop.call),
          stop_(stop.flag) {}

    [[nodiscard]] Roster meet(const MeetRequest& request) override { return count(), link_.meet(request); }
    [[nodiscard]] Task task_after(const CallPlace& place, int64_t number) override {
        return count(), link_.task_after(place, number);
    }
    [[nodiscard]] std::string done(const CallPlace& place, int64_t number, const std::string& said) override {
        return count(), link_.done(place, number, said);
    }
    void begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine) override {
        count();
        link_.begin(place, record, mine);
    }
    [[nodiscard]] std::vector<int64_t> lease(const CallPlace& place, int64_t most) override {
        return count(), link_.lease(place, most);
    }
    [[nodiscard]] Coordinator::Agreed agree(const CallPlace& place, const GrainLedger& mine,
                                            bool wishes_to_stop) override {
        return count(), link_.agree(place, mine, wishes_to_stop);
    }
    [[nodiscard]] Verdict vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks) override {
        return count(), link_.vote(place, attempt, checks);
    }
    void leave() override { link_.leave(); }
    [[nodiscard]] std::string ask(const std::string& subject, const std::string& question) override {
        return count(), link_.ask(subject, question);
    }
    void set(const std::string& key, const std::string& value) override {
        count();
        link_.set(key, value);
    }
    [[nodiscard]] std::string get(const std::string& key, std::chrono::milliseconds limit) override {
        return count(), link_.get(key, limit);
    }

private:
    void count() {
        if (is_mortal_ && calls_left_-- <= 0) {  // what was loaded ahead may not be looked at
            throw Killed();
        }
        if (calls_to_stop_-- == 0) {
            *stop_ = true;
        }
    }

    Link& link_;
    const bool is_mortal_;
    std::atomic<int64_t> calls_left_;  // batches are loaded by a thread of their own
    std::atomic<int64_t> calls_to_stop_;
    StopFlag* stop_;
};

constexpr int64_t kNeverKilled = -1;

// Threads in the place of processes. A worker that is killed is started again, under another name.
class Threads final : public Workforce {
public:
    // `deaths`: for each worker, at which of its calls it is killed.
    Threads(CoordinatorDesk& desk, std::vector<int64_t> deaths, const StopAt& stop)
        : desk_(desk), deaths_(std::move(deaths)), stop_(stop) {}

    // Whoever still waits ends.
    ~Threads() override {
        desk_.close();
        for (Worker& worker : all_) {
            if (worker.end.valid()) {
                worker.end.wait();
            }
        }
    }

    void start(Answers& leader) override {
        leader_ = &leader;
        for (const int64_t death : deaths_) {
            start_one(death);
        }
    }
    [[nodiscard]] std::vector<std::string> look_after() override {
        for (size_t number = 0; number < all_.size(); ++number) {
            Worker& worker = all_[number];
            if (!worker.end.valid() || worker.end.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
                continue;
            }
            try {
                worker.end.get();
            } catch (const Killed&) {
                desk_.leave(worker.name);
                start_one(kNeverKilled);
                ++killed_;
            }
        }
        return {};
    }
    void end() override {
        for (Worker& worker : all_) {
            try {
                if (worker.end.valid()) {
                    worker.end.get();
                }
            } catch (const Killed&) {
                ++killed_;
            }
        }
    }
    [[nodiscard]] int64_t killed() const override { return killed_; }

private:
    struct Worker {
        std::string name;
        std::future<void> end;
    };

    void start_one(int64_t death) {
        const std::string name = cat("w", all_.size());
        const StopAt stop = all_.empty() ? stop_ : StopAt{};
        all_.push_back({.name = name, .end = std::async(std::launch::async, [this, name, death, stop] {
                                          InProcessLink link(desk_, *leader_, name);
                                          MortalLink mortal(link, death, stop);
                                          work_for_team(mortal, {.name = name});
                                      })});
    }

    CoordinatorDesk& desk_;
    std::vector<int64_t> deaths_;
    StopAt stop_;
    Answers* leader_ = nullptr;
    std::deque<Worker> all_;
    int64_t killed_ = 0;
};

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
        Threads threads(desk, std::move(deaths), stop_at_);
        TeamLeader leader(desk, threads, {.workers = workers});
        const TrainSummary summary = train_with(settings, stop, {.team = &leader});
        desk.close();
        killed_ = threads.killed();
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
    int64_t killed_ = 0;  // workers of the last run
    StopAt stop_at_;      // of the next one
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
            stop_at_ = {.call = call, .flag = &stop};
            const TrainSummary stopped = train_by(std::vector<int64_t>(workers, kNeverKilled), settings(run), stop);
            stop_at_ = {};
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
