#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/cli/child_process.h"
#include "accrue/train/run_folder.h"
#include "accrue/train/settings.h"
#include "accrue/train/step.h"

namespace accrue {

// Thrown when a signal asked to stop. What was started and written goes with the object that threw it.
struct TrialStopped {};

// Of a run that was tried and failed.
class TrialFailed final : public Error {
public:
    // `output`: all that it said.
    TrialFailed(int code, const std::string& output)
        : Error(cat("a training run that was tried ended with exit code ", code, ":\n", output)), output_(output) {}
    // The last thing that it said, as an error says it.
    [[nodiscard]] std::string reason() const;

private:
    std::string output_;
};

// Training runs of this program in a folder that goes away: for commands that show, check or measure what `accrue train` does,
// by doing it. Each run is a process of its own, whose words nobody sees unless it fails.
class TrialRuns {
public:
    // `told` hears several times a second how many steps the present run has done.
    TrialRuns(const StopFlag& stop, std::function<void(int64_t steps)> told) : stop_(stop), told_(std::move(told)) {}

    // Where a run of that name lies; there is none yet.
    [[nodiscard]] RunFolder folder(const std::string& name) const { return {folder_ / name}; }
    // Runs find text there that was tokenized before, and leave there what they tokenize.
    void use_token_cache(const std::filesystem::path& cache) const;

    // `arguments` train into `run`. Throws TrialFailed if it does.
    void finish(const std::vector<std::string>& arguments, const RunFolder& run);
    // Ends it with SIGKILL half a step after it has done so many.
    void kill_after(int64_t steps, const std::vector<std::string>& arguments, const RunFolder& run);
    // The same, but only one of the run's workers is killed, and the run goes on to its end. False if none was there any more.
    [[nodiscard]] bool finish_without_a_worker(int64_t steps, const std::vector<std::string>& arguments,
                                               const RunFolder& run);

private:
    void watch(ChildProcess& child, const RunFolder& run, int64_t until_steps, std::chrono::milliseconds look) const;
    void wait_until_mid_window(ChildProcess& child, const RunFolder& run, int64_t steps) const;
    void require_success(ChildProcess& child) const;
    [[nodiscard]] std::filesystem::path log() const { return folder_ / "output.txt"; }

    TemporaryFolder folder_;
    const StopFlag& stop_;
    std::function<void(int64_t)> told_;
};

// A job of which only some steps are to be trained.
struct TrialJob {
    std::filesystem::path settings_file;  // "" = the default job
    std::vector<std::string> overrides;
    Settings settings;  // these, read, for workers settled
    enum class Beginning {
        fresh,
        continued
    } beginning = Beginning::fresh;  // continued: from what lies in the run's folder
    int64_t steps = 1;               // to which it is trained
};
// The words of accrue train for it. Whatever only costs time is left out; 0 workers = the run's own process computes.
[[nodiscard]] std::vector<std::string> words_of_train(const TrialJob& job, const RunFolder& run, int64_t workers);

// Steps whose line is in a run's metrics.
[[nodiscard]] int64_t steps_done(const RunFolder& run);
// Of the model at the end of a run.
[[nodiscard]] std::string weights_sha256(const RunFolder& run);

}  // namespace accrue
