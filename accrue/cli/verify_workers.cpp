#include "accrue/cli/verify_workers.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/assess/verify_workers.h"
#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/cli/signals.h"
#include "accrue/cli/standard_output.h"
#include "accrue/cli/team_options.h"
#include "accrue/cli/tokenizing_report.h"
#include "accrue/cli/trial_runs.h"
#include "accrue/model/parameters.h"
#include "accrue/observe/run_figures.h"
#include "accrue/observe/status_line.h"
#include "accrue/train/inputs.h"
#include "accrue/train/newest_checkpoint.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// A run that is through before its worker can be killed is tried so often.
constexpr int kMostTries = 3;

// What is verified: a settings file, or a run with a checkpoint to go on from.
struct RunToVerify {
    fs::path settings;
    fs::path run = {};         // "" = from the first weights
    fs::path checkpoint = {};  // of the run, whole
    int64_t step = 0;          // of the checkpoint
};

RunToVerify source_of(const VerifyCommand& command) {
    if (!fs::is_directory(command.source)) {
        return {.settings = command.source};
    }
    const RunFolder folder{command.source};
    if (!fs::exists(folder.settings())) {
        throw Error(cat(command.source, " holds no run.toml. Give a settings file or the folder of a run."));
    }
    RunToVerify source{.settings = folder.settings()};
    if (const auto checkpoint = open_newest_checkpoint(folder.checkpoints(), warn)) {
        source.run = folder.root;
        source.checkpoint = fs::canonical(checkpoint->path());
        constexpr std::string_view kBeforeTheStep = "step-";
        source.step = std::stoll(source.checkpoint.filename().string().substr(kBeforeTheStep.size()));
    }
    return source;
}

class WorkersVerifier {
public:
    explicit WorkersVerifier(const VerifyCommand& command)
        : command_(command),
          source_(source_of(command)),
          settings_(read_settings(source_.settings, command.overrides)),
          shows_(!command.json && isatty(STDOUT_FILENO) != 0) {
        require_for_workers(settings_.compute);
    }
    [[nodiscard]] ExitCode run();

private:
    enum class Kill { nothing, worker };
    void describe();
    void begin(const RunFolder& run) const;
    void train(const RunFolder& run, Kill kill, ProcessesWay& way);
    void compute(std::string name, int64_t workers, Kill kill);
    void show_progress(int64_t steps);

    const VerifyCommand& command_;
    const StopFlag& stop_ = stop_on_signals();
    RunToVerify source_;
    Settings settings_;
    bool shows_;
    std::string doing_;
    TrialRuns runs_{stop_, [this](int64_t steps) { show_progress(steps); }};
    StatusLine line_{stdout};
    ProcessesReport report_;
};

// Opened as a run does, so that what is wrong with settings and data is said at once, and text is tokenized once for all ways.
void WorkersVerifier::describe() {
    TokenizingReport tokenizing(stderr);
    const RunInputs inputs =
        open_inputs(settings_, tokenizing.callback(stop_), known_families(), DeviceUse::compute, command_.workers);
    const Settings::Window& size = inputs.settings.window;
    const int64_t samples =
        size.tokens > 0 ? std::max<int64_t>(1, size.tokens / inputs.longest_sample()) : size.samples;
    report_ = {.model = name_of(settings_.model),
               .parameters = inputs.model->parameters().elements(),
               .workers = command_.workers,
               .from_step = source_.step,
               .windows = command_.windows,
               .grains = (samples + size.grain_samples - 1) / size.grain_samples};
    settings_ = inputs.settings;
    runs_.use_token_cache(token_cache_of(settings_));
}

// A run that goes on needs what the one that it goes on from left. Its checkpoint is only read.
void WorkersVerifier::begin(const RunFolder& run) const {
    if (source_.run.empty()) {
        return;
    }
    const RunFolder old{source_.run};
    fs::create_directories(run.checkpoints());
    fs::copy_file(old.settings(), run.settings());
    if (fs::exists(old.tokenizer())) {
        fs::copy(old.tokenizer(), run.tokenizer(), fs::copy_options::recursive);
    }
    fs::create_directory_symlink(source_.checkpoint, run.checkpoints() / source_.checkpoint.filename());
}

void WorkersVerifier::show_progress(int64_t steps) {
    if (shows_) {
        line_.draw(
            {.texts = {doing_, fmt::format("window {} of {}", std::min(steps + 1, report_.windows), report_.windows)},
             .done = (static_cast<double>(report_.ways.size()) +
                      static_cast<double>(steps) / static_cast<double>(report_.windows + 1)) /
                     3});
    }
}

// Once. What came of it goes into `way`.
void WorkersVerifier::train(const RunFolder& run, Kill kill, ProcessesWay& way) {
    begin(run);
    const auto start = Clock::now();
    const std::vector<std::string> words =
        words_of_train({.settings_file = source_.settings,
                        .overrides = command_.overrides,
                        .settings = settings_,
                        .beginning = source_.run.empty() ? TrialJob::Beginning::fresh : TrialJob::Beginning::continued,
                        .steps = source_.step + command_.windows},
                       run, way.workers);
    if (kill == Kill::worker) {
        (void)runs_.finish_without_a_worker((command_.windows + 1) / 2, words, run);
    } else {
        runs_.finish(words, run);
    }
    way.seconds = seconds_since(start);
    way.sha256 = weights_sha256(run);
    RunFigures figures;
    (void)read_metrics(run.metrics(), [&](const MetricsRow& row) { figures.add(row); });
    way.lost_workers = static_cast<int64_t>(figures.workers.lost.total());
    way.grains_recomputed = static_cast<int64_t>(figures.workers.recomputed_grains.total());
    fs::remove_all(run.root);  // a checkpoint that it began with is only linked there
}

void WorkersVerifier::compute(std::string name, int64_t workers, Kill kill) {
    doing_ = name;
    ProcessesWay way{.name = std::move(name), .workers = workers};
    const bool wants_loss = kill == Kill::worker;
    for (int tries = 0; tries == 0 || (wants_loss && way.lost_workers == 0 && tries < kMostTries); ++tries) {
        train(runs_.folder(fmt::format("way-{}-{}", report_.ways.size(), tries)), kill, way);
    }
    if (wants_loss && way.lost_workers == 0) {
        way.outcome = ProcessesWay::Outcome::not_tried;
    }
    report_.add(std::move(way));
    if (!command_.json) {
        line_.note(processes_line(report_.ways.back()));
        flush_output();
    }
}

ExitCode WorkersVerifier::run() {
    describe();
    if (!command_.json) {
        fmt::print("{}", processes_head(report_));
        flush_output();
    }
    try {
        compute("one process", 0, Kill::nothing);
        compute(fmt::format("{} workers", command_.workers), command_.workers, Kill::nothing);
        compute(fmt::format("{} workers, one killed in the middle", command_.workers), command_.workers, Kill::worker);
    } catch (...) {
        line_.clear();
        throw;
    }
    line_.clear();
    fmt::print("{}", command_.json ? to_json(report_).dump(2) + "\n" : processes_tail(report_));
    return report_.holds() ? ExitCode::done : ExitCode::error;
}

}  // namespace

ExitCode verify_over_workers(const VerifyCommand& command) try {
    return WorkersVerifier(command).run();
} catch (const TrialStopped&) {
    end_by_signal();
} catch (const StoppedWhileTokenizing&) {
    end_by_signal();
}

}  // namespace accrue
