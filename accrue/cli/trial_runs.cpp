#include "accrue/cli/trial_runs.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>

#include "accrue/base/file.h"
#include "accrue/observe/metrics_rows.h"

namespace accrue {
namespace {

// How often a run is looked at: while it goes its way, and when something is to happen between two steps of a few milliseconds.
constexpr std::chrono::milliseconds kUsualLook{50};
constexpr std::chrono::milliseconds kQuickLook{1};

// How long a run's last finished step took.
double last_step_seconds(const RunFolder& run) {
    double seconds = 0;
    (void)read_metrics(run.metrics(), [&](const MetricsRow& row) { seconds = row.seconds; });
    return seconds;
}

}  // namespace

std::vector<std::string> words_of_train(const TrialJob& job, const RunFolder& run, int64_t workers) {
    std::vector<std::string> words = {"train"};
    std::vector<std::string> settings = job.overrides;
    if (job.beginning == TrialJob::Beginning::continued) {
        words.insert(words.end(), {"--resume", run.root.string()});
    } else {
        settings.push_back(cat("run.folder=", run.root.string()));
        if (!job.settings_file.empty()) {
            words.push_back(job.settings_file.string());
        }
    }
    for (const std::string& setting :
         {cat("schedule.steps=", job.steps),
          cat("schedule.warmup_steps=", std::min(job.settings.schedule.warmup_steps, job.steps)),
          cat("compute.device=", text_of(job.settings.compute.device.value())), std::string("run.evaluate_steps=0"),
          std::string("run.checkpoint_steps=0"), std::string("run.keep_checkpoints=0")}) {
        settings.push_back(setting);
    }
    for (const std::string& setting : settings) {
        words.insert(words.end(), {"--set", setting});
    }
    if (workers > 0) {
        words.insert(words.end(), {"--workers", std::to_string(workers)});
    }
    return words;
}

std::string TrialFailed::reason() const {
    constexpr std::string_view kSays = "accrue: ";
    std::istringstream lines(output_);
    std::string last;
    for (std::string line; std::getline(lines, line);) {
        last = line.empty() ? last : line;
    }
    return last.starts_with(kSays) ? last.substr(kSays.size()) : last;
}

int64_t steps_done(const RunFolder& run) {
    std::ifstream input(run.metrics());
    return std::count(std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>(), '\n');
}

std::string weights_sha256(const RunFolder& run) {
    return sha256_of_file(run.model() / "model.safetensors");
}

void TrialRuns::use_token_cache(const std::filesystem::path& cache) const {
    if (std::filesystem::is_directory(cache)) {
        std::filesystem::create_directory_symlink(std::filesystem::canonical(cache), folder_ / cache.filename());
    }
}

void TrialRuns::watch(ChildProcess& child, const RunFolder& run, int64_t until_steps,
                      std::chrono::milliseconds look) const {
    for (int64_t steps = 0; !child.has_ended() && steps < until_steps; std::this_thread::sleep_for(look)) {
        if (stop_) {
            throw TrialStopped();
        }
        steps = steps_done(run);
        told_(steps);
    }
}

void TrialRuns::require_success(ChildProcess& child) const {
    if (const int code = child.wait(); code != 0) {
        throw TrialFailed(code, read_text(log()));
    }
}

void TrialRuns::finish(const std::vector<std::string>& arguments, const RunFolder& run) {
    ChildProcess child(arguments, log(), folder_.path());
    watch(child, run, INT64_MAX, kUsualLook);
    require_success(child);
}

void TrialRuns::wait_until_mid_window(ChildProcess& child, const RunFolder& run, int64_t steps) const {
    watch(child, run, steps, kQuickLook);
    std::this_thread::sleep_for(std::chrono::duration<double>(last_step_seconds(run) / 2));
}

void TrialRuns::kill_after(int64_t steps, const std::vector<std::string>& arguments, const RunFolder& run) {
    ChildProcess child(arguments, log(), folder_.path());
    wait_until_mid_window(child, run, steps);
    child.send(SIGKILL);
    if (child.wait() != 128 + SIGKILL) {
        throw Error(cat("the run that was to be killed ended before:\n", read_text(log())));
    }
}

bool TrialRuns::finish_without_a_worker(int64_t steps, const std::vector<std::string>& arguments,
                                        const RunFolder& run) {
    ChildProcess child(arguments, log(), folder_.path());
    wait_until_mid_window(child, run, steps);
    const std::vector<pid_t> workers = child.children();
    const bool is_killed = !workers.empty() && kill(workers.front(), SIGKILL) == 0;
    watch(child, run, INT64_MAX, kUsualLook);
    require_success(child);
    return is_killed;
}

}  // namespace accrue
