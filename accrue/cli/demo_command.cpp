#include "accrue/cli/demo_command.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/assess/mean_of_means.h"
#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/cli/child_process.h"
#include "accrue/cli/signals.h"
#include "accrue/cli/standard_output.h"
#include "accrue/observe/status_line.h"
#include "accrue/train/run_folder.h"

namespace accrue {
namespace {

// How often a run is looked at: while it goes its way, and when it is to be killed between two steps of a few milliseconds.
constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::milliseconds kQuickLook{1};
// The job's own grain, whatever the device likes best: four samples, so that a window of 32 can be cut.
constexpr int64_t kGrainSamples = 4;
constexpr size_t kShownDigits = 16;

// One way to train the job. Threads 0 = all.
struct DemoRun {
    std::string name;
    int64_t micro_batch_grains = 1;
    int64_t threads = 0;
    bool killed = false;
};

struct Result {
    std::string sha256;
    double seconds = 0;
};

int64_t lines_of(const std::filesystem::path& file) {
    std::ifstream input(file);
    return std::count(std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>(), '\n');
}

// How long a run's last finished step took.
double last_step_seconds(const std::filesystem::path& metrics) {
    std::ifstream input(metrics);
    double seconds = 0;
    for (std::string line; std::getline(input, line);) {
        const auto json = nlohmann::json::parse(line, nullptr, false);
        seconds = json.is_object() ? json.value("seconds", seconds) : seconds;
    }
    return seconds;
}

// Thrown when a signal asked to stop: what was started and written for the demo goes with it.
struct DemoStopped {};

class Demo {
public:
    explicit Demo(int64_t steps) : steps_(steps), is_terminal_(isatty(STDOUT_FILENO) != 0) {}
    [[nodiscard]] ExitCode run();

private:
    [[nodiscard]] std::vector<std::string> job(const DemoRun& way) const;
    void introduce() const;
    void train(const DemoRun& way);
    void finish_child(const std::vector<std::string>& arguments, const DemoRun& way);
    void kill_in_mid_window(const DemoRun& way);
    void watch(ChildProcess& child, const DemoRun& way, int64_t until_lines, std::chrono::milliseconds look);
    [[nodiscard]] std::vector<std::string> settings() const;
    void show_mean_of_means();
    [[nodiscard]] RunFolder folder_of(const DemoRun& way) const;
    [[nodiscard]] bool all_same() const;

    int64_t steps_;
    bool is_terminal_;
    const StopFlag& stop_ = stop_on_signals();
    TemporaryFolder folder_;
    StatusLine line_{stdout};
    // 8 grains are a window.
    std::vector<DemoRun> ways_ = {
        {.name = "the whole window of 32 samples at once", .micro_batch_grains = 8},
        {.name = "3 micro-batches: 12, 12 and 8 samples", .micro_batch_grains = 3},
        {.name = "8 micro-batches of 4 samples, 1 thread", .micro_batch_grains = 1, .threads = 1},
        {.name = "4 micro-batches of 8 samples, 3 threads", .micro_batch_grains = 2, .threads = 3},
        {.name = "8 micro-batches, kill -9, resumed", .micro_batch_grains = 1, .threads = 2, .killed = true},
    };
    std::vector<Result> results_;
};

RunFolder Demo::folder_of(const DemoRun& way) const {
    return {folder_ / fmt::format("way-{}", &way - ways_.data())};
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
    return arguments;
}

// Shows how far a child is, until its metrics have so many lines or it has ended.
void Demo::watch(ChildProcess& child, const DemoRun& way, int64_t until_lines, std::chrono::milliseconds look) {
    for (int64_t lines = 0; !child.has_ended() && lines < until_lines; std::this_thread::sleep_for(look)) {
        if (stop_) {
            line_.clear();
            throw DemoStopped();
        }
        lines = lines_of(folder_of(way).metrics());
        if (is_terminal_) {
            const auto ways = static_cast<double>(ways_.size());
            const double done =
                static_cast<double>(results_.size()) + static_cast<double>(lines) / static_cast<double>(steps_ + 1);
            line_.draw({.texts = {fmt::format("way {} of {}, step {} of {}", results_.size() + 1, ways_.size(),
                                              std::min(lines + 1, steps_), steps_)},
                        .done = done / ways});
        }
    }
}

void Demo::finish_child(const std::vector<std::string>& arguments, const DemoRun& way) {
    const std::filesystem::path log = folder_ / "output.txt";
    ChildProcess child(arguments, log);
    watch(child, way, INT64_MAX, kLook);
    if (const int code = child.wait(); code != 0) {
        line_.clear();
        throw Error(cat("a training run of the demo ended with exit code ", code, ":\n", read_text(log)));
    }
}

// Kills the run with SIGKILL half a step after one of its optimizer steps: nothing of that half step is left.
void Demo::kill_in_mid_window(const DemoRun& way) {
    const int64_t steps_before = std::max<int64_t>(1, steps_ / 2);
    ChildProcess child(job(way), folder_ / "output.txt");
    watch(child, way, steps_before, kQuickLook);
    std::this_thread::sleep_for(std::chrono::duration<double>(last_step_seconds(folder_of(way).metrics()) / 2));
    child.send(SIGKILL);
    if (child.wait() != 128 + SIGKILL) {
        throw Error(cat("the run that was to be killed ended before:\n", read_text(folder_ / "output.txt")));
    }
    // A machine that was busy with other things may have let it finish the step.
    const int64_t lines = lines_of(folder_of(way).metrics());
    line_.note(fmt::format("  ... kill -9 {} step {}; accrue train --resume, with 1 thread",
                           lines == steps_before ? "in the middle of" : "after",
                           lines == steps_before ? lines + 1 : lines));
}

void Demo::train(const DemoRun& way) {
    const auto start = Clock::now();
    if (way.killed) {
        kill_in_mid_window(way);
        finish_child({"train", "--resume", folder_of(way).root.string(), "--set", "compute.threads=1"}, way);
    } else {
        finish_child(job(way), way);
    }
    const Result result{.sha256 = sha256_of_file(folder_of(way).model() / "model.safetensors"),
                        .seconds = seconds_since(start)};
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
    for (const DemoRun& way : ways_) {
        train(way);
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

ExitCode run_demo(const DemoCommand& command) try { return Demo(command.steps).run(); } catch (const DemoStopped&) {
    end_by_signal();
}

void add_demo_command(CLI::App& app, DemoCommand& command, ExitCode& code) {
    auto* demo = app.add_subcommand("demo", "See the law hold: a minute of cuts, threads, a kill and a resume");
    demo->add_option("--steps", command.steps, "Optimizer steps of each run")
        ->capture_default_str()
        ->check(CLI::Range(int64_t{2}, int64_t{10000}));
    demo->callback([&code, &command] { code = run_demo(command); });
}

}  // namespace accrue
