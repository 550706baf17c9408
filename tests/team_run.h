#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support.h"
#include "tests/team_threads.h"

#include "accrue/base/file.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/team/team_leader.h"
#include "accrue/train/trainer.h"

// Whole runs whose steps workers compute: threads of this process.
namespace accrue::testing {

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
        team_.fates = std::move(fates);
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
    // Of the last run.
    int64_t killed_ = 0;
    int64_t joined_ = 0;
    int64_t forged_ = 0;
    ThreadsOptions team_;  // of the next one; without the fates
};

}  // namespace accrue::testing
