#include "tests/soaking/round.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/soaking/commands.h"
#include "tests/soaking/job.h"
#include "tests/soaking/judge.h"
#include "tests/soaking/small_disk.h"
#include "tests/soaking/traced_run.h"

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostDisturbances = 8;

std::vector<Kind> kinds_for(const SoakOptions& options, bool small_disk) {
    std::vector<Kind> kinds = options.kinds;
    std::erase_if(kinds, [&](Kind kind) {
        return (kind == Kind::small_disk && !small_disk) || (!is_signal(kind) && !options.may_trace);
    });
    return kinds;
}

class Round {
public:
    Round(const SoakOptions& options, uint64_t seed, fs::path folder, Tally& tally, RoundReport& report)
        : options_(options),
          dice_(seed),
          folder_(std::move(folder)),
          run_(folder_ / "disturbed" / "run"),
          tally_(tally),
          report_(report) {}

    void run() {
        fs::create_directories(folder_ / "inputs");
        job_ = make_job(dice_, folder_ / "inputs");
        report_.job = job_.description;
        run_undisturbed();
        fs::create_directories(run_.parent_path());
        const bool small_disk = options_.may_mount && dice_.one_in(3);
        if (small_disk) {
            disk_.emplace(run_.parent_path());
        }
        try {
            run_disturbed(kinds_for(options_, small_disk));
        } catch (const Error&) {
            if (disk_) {
                fs::copy(run_.parent_path(), folder_ / "disturbed-copy", fs::copy_options::recursive);
            }
            throw;
        }
    }

private:
    void run_undisturbed() {
        const fs::path run = folder_ / "undisturbed" / "run";
        const Outcome outcome = execute(first_command(run, {}), {});
        size_ = {.changes = outcome.changes, .bytes = 0, .largest_file = 1, .seconds = outcome.seconds};
        for (const auto& [name, contents] : files_below(run.parent_path())) {
            size_.bytes += static_cast<int64_t>(contents.size());
            size_.largest_file = std::max(size_.largest_file, static_cast<int64_t>(contents.size()));
        }
        expected_ = {.model = files_below(run / "model"), .metrics = run / "metrics.jsonl"};
        check_results(run, expected_);
    }

    void run_disturbed(const std::vector<Kind>& kinds) {
        RunWatch watch(run_, expected_);
        bool finished = false;
        const int64_t disturbances = kinds.empty() ? 0 : dice_.between(1, kMostDisturbances);
        for (int64_t i = 0; i < disturbances; ++i) {
            const Outcome outcome = execute(next_command(), draw_disturbance(dice_, kinds, size_));
            watch.look();
            finished = finished || outcome.exit_code == 0;
            if (finished && !dice_.one_in(3)) {
                break;  // else a run that is through is resumed and disturbed again
            }
        }
        // Once to its end, and once more: what a killed process left is cleared up by the next start.
        for (int64_t i = 0; i < 2; ++i) {
            (void)execute(next_command(), {});
            watch.look();
        }
        check_results(run_, expected_);
        check_nothing_left(run_);
    }

    [[nodiscard]] Command first_command(const fs::path& run, const KeyValues& changes) const {
        return train_command(options_.program, run, job_, changes);
    }

    // How a user would go on: resume what there is, or start again.
    [[nodiscard]] Command next_command() {
        const KeyValues changes = free_settings(dice_);
        const bool has_checkpoint = !list_checkpoints(run_ / "checkpoints").empty();
        const bool start_again = dice_.one_in(4) && !has_checkpoint;
        if (start_again || !fs::exists(run_ / "run.toml")) {
            return first_command(run_, changes);
        }
        return resume_command(options_.program, run_, changes);
    }

    // Runs, disturbs, takes it down and judges how it ended.
    Outcome execute(const Command& command, const Disturbance& disturbance) {
        if (disturbance.kind == Kind::small_disk) {
            disk_->leave(disturbance.room_bytes);
        }
        std::optional<int> second;
        Outcome outcome = options_.may_trace ? run_traced(command, disturbance, [&] { second = run_second(); })
                                             : run_timed(command, disturbance, size_.seconds);
        if (disturbance.kind == Kind::small_disk) {
            disk_->leave_plenty();
        }
        const bool failed = disturbance.kind == Kind::small_disk || disturbance.kind == Kind::size_limit;
        outcome.landed = outcome.landed || (failed && outcome.exit_code != 0);
        std::string lost;
        if (disturbance.kind == Kind::power_cut && outcome.landed) {
            Dice dice(disturbance.pick);
            lost = cat(", ", outcome.unsynced.lose(run_.parent_path(), dice), " file(s) lost something");
        }
        report_.log.push_back(cat(shell_text(command), "\n    # ", text_of(disturbance), ": ",
                                  outcome.landed ? cat("landed at ", outcome.where, lost) : "not disturbed",
                                  "; exit code ", outcome.exit_code));
        if (outcome.exit_code == 1) {
            report_.log.back() += "\n    # " + outcome.output.substr(0, outcome.output.find_last_not_of('\n') + 1);
        }
        tally_.landed[disturbance.kind] += outcome.landed ? 1 : 0;
        tally_.resumes +=
            std::find(command.arguments.begin(), command.arguments.end(), "--resume") != command.arguments.end() ? 1
                                                                                                                 : 0;
        check_end(outcome, disturbance, folder_);
        // Who is held up on its way to the lock comes after the other one, and both are served.
        const bool one_after_the_other = second == 0 && outcome.where.ends_with("run.lock");
        if (second && !one_after_the_other && (*second == 0) == (outcome.exit_code == 0)) {
            throw Error(cat("of two processes on one run, ", *second == 0 ? "none was refused" : "both were refused"));
        }
        return outcome;
    }

    [[nodiscard]] int run_second() {
        const Command command = resume_command(options_.program, run_, free_settings(dice_));
        const Outcome outcome = run_timed(command, {}, 0);
        report_.log.push_back(cat(shell_text(command), "\n    # at the same time; exit code ", outcome.exit_code));
        return outcome.exit_code;
    }

    const SoakOptions& options_;
    Dice dice_;
    fs::path folder_;
    fs::path run_;
    Tally& tally_;
    RoundReport& report_;
    Job job_;
    JobSize size_;
    ExpectedRun expected_;
    std::optional<SmallDisk> disk_;
};

}  // namespace

int64_t Tally::all_landed() const {
    int64_t all = 0;
    for (const auto& [kind, count] : landed) {
        all += count;
    }
    return all;
}

std::string Tally::text() const {
    std::string text = cat(rounds, " rounds, ", resumes, " resumes, ", all_landed(), " disturbances landed");
    for (const auto& [kind, count] : landed) {
        text += count > 0 ? cat(", ", count, " ", name_of(kind)) : "";
    }
    return text;
}

RoundReport run_round(const SoakOptions& options, uint64_t seed, const fs::path& folder, Tally& tally) {
    RoundReport report;
    try {
        Round(options, seed, folder, tally, report).run();
        ++tally.rounds;
    } catch (const Error& error) {
        report.problem = error.what();
    }
    return report;
}

}  // namespace accrue::soaking
