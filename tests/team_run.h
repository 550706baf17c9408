#pragma once

#include <atomic>
#include <cstdio>
#include <deque>
#include <future>
#include <string>
#include <vector>

#include "tests/support.h"

#include "accrue/base/file.h"
#include "accrue/dist/in_process_link.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/team/team_leader.h"
#include "accrue/train/team/team_worker.h"
#include "accrue/train/trainer.h"

// Whole runs whose steps workers compute: threads of this process, each with an engine of its own, that know nothing but what their
// leader says.
namespace accrue::testing {

// What a worker that is killed leaves behind.
class Killed final : public std::exception {};

// When the run is told to stop: at that call of its first worker.
struct StopAt {
    int64_t call = -1;
    StopFlag* flag = nullptr;
};

// What becomes of a worker: at which of its calls it is killed, or what happens at one of its votes, both counted from 0 on.
struct Fate {
    enum class AtVote { nothing, killed_after, verdict_is_lost };

    Fate(int64_t call) : last_call(call) {}  // NOLINT(google-explicit-constructor): most are killed at a call, or never
    Fate(AtVote what, int64_t number) : at_vote(what), vote(number) {}

    int64_t last_call = -1;  // never
    AtVote at_vote = AtVote::nothing;
    int64_t vote = -1;
};

// Kills its worker, keeps a verdict from it, or tells the run to stop.
class MortalLink final : public Link {
public:
    MortalLink(Link& link, const Fate& fate, const StopAt& stop)
        : link_(link),
          fate_(fate),
          is_mortal_(fate.last_call >= 0),
          calls_left_(fate.last_call),
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
        count();
        Verdict verdict = link_.vote(place, attempt, checks);
        if (fate_.at_vote != Fate::AtVote::nothing && fate_.vote-- == 0) {
            if (fate_.at_vote == Fate::AtVote::killed_after) {
                throw Killed();
            }
            throw RosterChanged("the verdict was lost on its way");
        }
        return verdict;
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
    Fate fate_;
    const bool is_mortal_;
    std::atomic<int64_t> calls_left_;  // batches are loaded by a thread of their own
    std::atomic<int64_t> calls_to_stop_;
    StopFlag* stop_;
};

constexpr int64_t kNeverKilled = -1;

// Threads in the place of processes. A worker that is killed is started again, under another name.
class Threads final : public Workforce {
public:
    Threads(CoordinatorDesk& desk, std::vector<Fate> fates, const StopAt& stop)
        : desk_(desk), fates_(std::move(fates)), stop_(stop) {}

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
        for (const Fate& fate : fates_) {
            start_one(fate);
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

    void start_one(const Fate& fate) {
        const std::string name = cat("w", all_.size());
        const StopAt stop = all_.empty() ? stop_ : StopAt{};
        all_.push_back({.name = name, .end = std::async(std::launch::async, [this, name, fate, stop] {
                                          InProcessLink link(desk_, *leader_, name);
                                          MortalLink mortal(link, fate, stop);
                                          work_for_team(mortal, {.name = name});
                                      })});
    }

    CoordinatorDesk& desk_;
    std::vector<Fate> fates_;
    StopAt stop_;
    Answers* leader_ = nullptr;
    std::deque<Worker> all_;
    int64_t killed_ = 0;
};

// Runs in a folder of their own.
class TeamRun {
protected:
    TeamRun() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] Settings settings(const std::string& run) const {
        Settings settings = small_settings(golden("llama-tied"), folder_ / "data.safetensors");
        settings.data.validation = {(folder_ / "data.safetensors").string()};
        settings.schedule.steps = 5;
        settings.run.checkpoint_steps = 2;
        settings.run.evaluate_steps = 2;
        settings.run.folder = (folder_ / run).string();
        settings.compute.threads = 1;
        return settings;
    }

    // Alone, or by workers, each of which is killed at one of its calls.
    TrainSummary train_alone(const Settings& settings, const StopFlag& stop = kNever) const {
        return train_with(settings, stop, {});
    }
    TrainSummary train_by(std::vector<Fate> fates, const Settings& settings, const StopFlag& stop = kNever) {
        CoordinatorDesk desk({.least_workers = std::ssize(fates)});
        const int64_t workers = std::ssize(fates);
        Threads threads(desk, std::move(fates), stop_at_);
        TeamLeader leader(desk, threads, {.workers = workers});
        const TrainSummary summary = train_with(settings, stop, {.team = &leader});
        desk.close();
        killed_ = threads.killed();
        return summary;
    }
    TrainSummary train_with(const Settings& settings, const StopFlag& stop, const TrainOptions& options) const {
        const RunInputs inputs = open_inputs(settings);
        RunClaim claim = std::filesystem::exists(settings.run.folder)
                             ? RunClaim::of_run(settings.run.folder, Overwrite::no)
                             : RunClaim::of_new_run(settings, {}, Overwrite::no);
        std::FILE* const out = std::fopen((folder_ / "out.txt").c_str(), "w");
        Progress progress(out, false, settings.schedule.steps);
        const TrainSummary summary = train(inputs, claim, progress, stop, options);
        std::fclose(out);
        return summary;
    }
    // What the last run said of itself.
    [[nodiscard]] std::string output() const { return read_text(folder_ / "out.txt"); }
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

}  // namespace accrue::testing
