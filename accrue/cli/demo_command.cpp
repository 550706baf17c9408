#include "accrue/cli/demo_command.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <unistd.h>

#include "accrue/assess/mean_of_means.h"
#include "accrue/base/clock.h"
#include "accrue/cli/signals.h"
#include "accrue/cli/standard_output.h"
#include "accrue/cli/trial_runs.h"
#include "accrue/observe/status_line.h"
#include "accrue/train/run_folder.h"

namespace accrue {
namespace {

// The job's own grain, whatever the device likes best: four samples, so that a window of 32 can be cut.
constexpr int64_t kGrainSamples = 4;
constexpr size_t kShownDigits = 16;

// One way to train the job. Threads 0 = all.
struct DemoRun {
    std::string name;
    int64_t micro_batch_grains = 1;
    int64_t threads = 0;
    enum class Killed { nothing, run, worker } killed = Killed::nothing;
    int64_t workers = 0;  // 0 = the run's own process computes
};

struct Result {
    std::string sha256;
    double seconds = 0;
};

class Demo {
public:
    explicit Demo(int64_t steps) : steps_(steps), is_terminal_(isatty(STDOUT_FILENO) != 0) {}
    [[nodiscard]] ExitCode run();

private:
    [[nodiscard]] static std::vector<DemoRun> ways();
    [[nodiscard]] std::vector<std::string> job(const DemoRun& way) const;
    void introduce() const;
    void train(const DemoRun& way);
    void train_killed(const DemoRun& way);
    void train_without_a_worker(const DemoRun& way);
    void show_progress(int64_t steps);
    [[nodiscard]] std::vector<std::string> settings() const;
    void show_mean_of_means();
    [[nodiscard]] RunFolder folder_of(const DemoRun& way) const;
    [[nodiscard]] bool all_same() const;

    int64_t steps_;
    bool is_terminal_;
    const StopFlag& stop_ = stop_on_signals();
    TrialRuns runs_{stop_, [this](int64_t steps) { show_progress(steps); }};
    StatusLine line_{stdout};
    std::vector<DemoRun> ways_ = ways();
    std::vector<Result> results_;
};

// 8 grains are a window.
std::vector<DemoRun> Demo::ways() {
    using enum DemoRun::Killed;
    return {
        {.name = "the whole window of 32 samples at once", .micro_batch_grains = 8},
        {.name = "3 micro-batches: 12, 12 and 8 samples", .micro_batch_grains = 3},
        {.name = "8 micro-batches of 4 samples, 1 thread", .threads = 1},
        {.name = "4 micro-batches of 8 samples, 3 threads", .micro_batch_grains = 2, .threads = 3},
        {.name = "8 micro-batches, kill -9, resumed", .threads = 2, .killed = run},
        {.name = "2 workers, one of them killed", .threads = 2, .killed = worker, .workers = 2},
    };
}

RunFolder Demo::folder_of(const DemoRun& way) const {
    return runs_.folder(fmt::format("way-{}", &way - ways_.data()));
}

// What all ways have in common.
std::vector<std::string> Demo::settings() const {
    return {fmt::format("schedule.steps={}", steps_), fmt::format("window.grain_samples={}", kGrainSamples)};
}

std::vector<std::string> Demo::job(const DemoRun& way) const {
    std::vector<std::string> arguments = {"train"};
    std::vector<std::string> all = settings();
    for (const std::string& own :
         {fmt::format("compute.threads={}", way.threads),
          fmt::format("window.micro_batch_grains={}", way.micro_batch_grains), std::string("run.evaluate_steps=0"),
          std::string("run.checkpoint_steps=1"), fmt::format("run.folder={}", folder_of(way).root.string())}) {
        all.push_back(own);
    }
    for (const std::string& setting : all) {
        arguments.insert(arguments.end(), {"--set", setting});
    }
    if (way.workers > 0) {
        arguments.insert(arguments.end(), {"--workers", std::to_string(way.workers)});
    }
    return arguments;
}

void Demo::show_progress(int64_t steps) {
    if (is_terminal_) {
        const auto ways = static_cast<double>(ways_.size());
        const double done =
            static_cast<double>(results_.size()) + static_cast<double>(steps) / static_cast<double>(steps_ + 1);
        line_.draw({.texts = {fmt::format("way {} of {}, step {} of {}", results_.size() + 1, ways_.size(),
                                          std::min(steps + 1, steps_), steps_)},
                    .done = done / ways});
    }
}

// With SIGKILL, half a step after one of its optimizer steps: nothing of that half step is left.
void Demo::train_killed(const DemoRun& way) {
    const int64_t steps_before = std::max<int64_t>(1, steps_ / 2);
    runs_.kill_after(steps_before, job(way), folder_of(way));
    // A machine that was busy with other things may have let it finish the step.
    const int64_t steps = steps_done(folder_of(way));
    line_.note(fmt::format("  ... kill -9 {} step {}; accrue train --resume, with 1 thread",
                           steps == steps_before ? "in the middle of" : "after",
                           steps == steps_before ? steps + 1 : steps));
    runs_.finish({"train", "--resume", folder_of(way).root.string(), "--set", "compute.threads=1"}, folder_of(way));
}

// A run that is through before its worker can be killed shows nothing: it says so.
void Demo::train_without_a_worker(const DemoRun& way) {
    const int64_t steps_before = std::max<int64_t>(1, steps_ / 2);
    const bool is_killed = runs_.finish_without_a_worker(steps_before, job(way), folder_of(way));
    line_.note(is_killed ? fmt::format("  ... kill -9 of a worker after step {}: the others go on with its grains",
                                       steps_before)
                         : "  ... too short for a worker to be killed: take more --steps");
}

void Demo::train(const DemoRun& way) {
    const auto start = Clock::now();
    switch (way.killed) {
        case DemoRun::Killed::nothing:
            runs_.finish(job(way), folder_of(way));
            break;
        case DemoRun::Killed::run:
            train_killed(way);
            break;
        case DemoRun::Killed::worker:
            train_without_a_worker(way);
            break;
    }
    const Result result{.sha256 = weights_sha256(folder_of(way)), .seconds = seconds_since(start)};
    results_.push_back(result);
    line_.note(
        fmt::format("{:<42}{:>10.1f}    {}...", way.name, result.seconds, result.sha256.substr(0, kShownDigits)));
    flush_output();
}

void Demo::introduce() const {
    fmt::print(
        "One job, trained in {} ways that must not matter: a small model on built-in\n"
        "stories, {} optimizer steps, each from the gradients of 32 samples.\n\n"
        "{:<42}{:>10}    {}\n",
        ways_.size(), steps_, "how", "seconds", "SHA-256 of the weights");
    flush_output();
}

// What averaging would have made of the first window, for the cut of the second way.
void Demo::show_mean_of_means() {
    const RunInputs inputs = open_inputs(read_settings("", settings()));
    WindowLab lab(inputs, {}, real_program());
    const Computed whole = lab.by_step({});
    const int64_t samples = ways_[1].micro_batch_grains * lab.window().grain_samples;
    const MeanOfMeans mean = means_of_means(lab, {samples}, whole).front();
    line_.clear();
    fmt::print(
        "\nA mean of the micro-batches' means, the usual way, takes 12, 12 and 8 samples\n"
        "for equals: its gradient would be off by {:.1f}%, its loss by {:.2f}%.\n",
        100 * mean.gradient_error, 100 * std::abs(mean.loss_error));
}

bool Demo::all_same() const {
    return std::all_of(results_.begin(), results_.end(),
                       [&](const Result& result) { return result.sha256 == results_.front().sha256; });
}

ExitCode Demo::run() {
    introduce();
    const auto start = Clock::now();
    try {
        for (const DemoRun& way : ways_) {
            train(way);
        }
    } catch (...) {
        line_.clear();
        throw;
    }
    line_.clear();
    if (!all_same()) {
        fmt::print("\nThe weights are NOT the same. accrue verify says more.\n");
        return ExitCode::error;
    }
    fmt::print("\nAll {} give the same file, bit for bit. Its SHA-256 is\n{}\n", ways_.size(), results_.front().sha256);
    if (is_terminal_) {
        line_.draw({.texts = {"the error of a mean of means"}, .done = 1});
    }
    show_mean_of_means();
    fmt::print("{:.0f} seconds in all.\n", seconds_since(start));
    return ExitCode::done;
}

}  // namespace

ExitCode run_demo(const DemoCommand& command) try { return Demo(command.steps).run(); } catch (const TrialStopped&) {
    end_by_signal();
}

void add_demo_command(CLI::App& app, DemoCommand& command, ExitCode& code) {
    auto* demo = app.add_subcommand("demo", "See the law hold: a minute of cuts, threads, workers, kills and a resume");
    demo->add_option("--steps", command.steps, "Optimizer steps of each run")
        ->capture_default_str()
        ->check(CLI::Range(int64_t{2}, int64_t{10000}));
    demo->callback([&code, &command] { code = run_demo(command); });
}

}  // namespace accrue
