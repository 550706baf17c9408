#include "tests/soaking/team_round.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tests/soaking/cable_round.h"
#include "tests/soaking/commands.h"
#include "tests/soaking/job.h"
#include "tests/soaking/judge.h"
#include "tests/soaking/team_processes.h"
#include "tests/soaking/waiting.h"
#include <fmt/format.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostFaults = 10;
constexpr int64_t kMostWorkers = 4;
// A leader gives up when so many workers in a row were killed soon after their start.
constexpr int64_t kMostKills = 3;
// A worker may be silent for 10 s, and a message may take 30; the rest is for a busy machine.
constexpr double kLongestPause = 60;
// A worker that its leader did not start looks for it for a minute.
constexpr double kLongestSearch = 90;
constexpr double kSilence = 10;

// Where processes that are started meanwhile put their temporary files.
class TemporaryFilesIn {
public:
    explicit TemporaryFilesIn(const fs::path& folder) {
        const char* const old = std::getenv("TMPDIR");
        old_ = old == nullptr ? "" : old;
        fs::create_directories(folder);
        setenv("TMPDIR", folder.c_str(), 1);
    }
    ~TemporaryFilesIn() {
        if (old_.empty()) {
            unsetenv("TMPDIR");
        } else {
            setenv("TMPDIR", old_.c_str(), 1);
        }
    }
    TemporaryFilesIn(const TemporaryFilesIn&) = delete;
    TemporaryFilesIn& operator=(const TemporaryFilesIn&) = delete;

private:
    std::string old_;
};

// One leader with its workers, from its start to its end.
class LedRun {
public:
    LedRun(const Command& command, fs::path metrics, Dice& dice, TeamTally& tally, std::vector<std::string>& log)
        : leader_(command), metrics_(std::move(metrics)), dice_(dice), tally_(tally), log_(log) {}
    ~LedRun() { end_joiners(); }
    LedRun(const LedRun&) = delete;
    LedRun& operator=(const LedRun&) = delete;

    // One fault at a random moment. False: the leader has ended, or is about to.
    bool disturb(const std::vector<TeamFault>& kinds) {
        if (!reach(draw_moment(dice_))) {
            return false;
        }
        const std::vector<TeamFault> possible = possible_now(kinds);
        if (possible.empty()) {
            return !leader_.has_ended();
        }
        const auto fault = dice_.one_of(possible);
        const int64_t before = progress();
        const auto since = Clock::now();
        const double held = do_to_it(fault);
        const bool goes_on = fault != TeamFault::kill_leader && fault != TeamFault::stop_leader;
        if (!wait_until(held + kLongestPause,
                        [&] { return leader_.has_ended() || (goes_on && progress() != before); })) {
            throw Error(cat("after ", name_of(fault), " it stood still for ", kLongestPause, " s"));
        }
        const double pause = std::max(0.0, seconds_since(since) - held);
        tally_.pauses[fault].push_back(pause);
        log_.back() +=
            fmt::format("\n    # {}: {} after {:.2f} s", name_of(fault), goes_on ? "a step" : "ended", pause);
        is_told_ = is_told_ || !goes_on;
        return goes_on;
    }
    // Waits for the end of everybody; the leader's exit code.
    int end() {
        if (!wait_until(longest_run_, [&] { return leader_.has_ended(); })) {
            throw Error(cat("it did not end within ", longest_run_, " s"));
        }
        const int code = leader_.exit_code();
        log_.back() += cat("\n    # exit code ", code, code == 1 ? "\n    # " + leader_.output() : "");
        if (code != 0 && !(is_told_ && (code == 3 || code == 128 + SIGKILL))) {
            throw Error(cat("its leader ended with exit code ", code));
        }
        if (!wait_until(kLongestPause, [&] { return processes_of_group(leader_.id()).empty(); })) {
            throw Error(cat(processes_of_group(leader_.id()).size(), " process(es) were left behind"));
        }
        // Who was killed with its leader cannot say goodbye to those that it did not start.
        if (code != 128 + SIGKILL && !wait_until(kLongestSearch, [&] {
                return std::ranges::all_of(joiners_, [](const auto& joiner) { return joiner->has_ended(); });
            })) {
            throw Error("a worker that had joined did not end");
        }
        return code;
    }

private:
    [[nodiscard]] int64_t progress() const {
        std::error_code missing;
        const auto size = fs::file_size(metrics_, missing);
        return missing ? 0 : static_cast<int64_t>(size);
    }
    [[nodiscard]] std::vector<pid_t> workers() const { return workers_of_group(leader_.id()); }

    // False if the leader ends before.
    bool reach(const TeamMoment& moment) {
        int64_t steps = 0;
        int64_t size = progress();
        const bool came = wait_until(longest_run_, [&] {
            const int64_t now = progress();
            steps += now != size ? 1 : 0;
            size = now;
            const bool is_there = moment.is_start && is_first_ ? !workers().empty() : steps > moment.steps;
            return is_there || leader_.has_ended();
        });
        if (!came) {
            throw Error(cat("it did not go on for ", longest_run_, " s"));
        }
        pause_for(moment.is_start && is_first_ ? 5 * moment.seconds : moment.seconds);
        is_first_ = false;
        return !leader_.has_ended();
    }

    [[nodiscard]] std::vector<TeamFault> possible_now(const std::vector<TeamFault>& kinds) {
        std::erase_if(joiners_, [](const auto& joiner) { return joiner->has_ended(); });
        const int64_t there = std::ssize(workers());
        std::vector<TeamFault> possible = kinds;
        std::erase_if(possible, [&](TeamFault fault) {
            const int64_t kills = fault == TeamFault::kill_all_workers ? there
                                  : fault == TeamFault::kill_worker    ? 1
                                                                       : 0;
            const bool needs_a_worker =
                fault != TeamFault::kill_leader && fault != TeamFault::stop_leader && fault != TeamFault::freeze_leader;
            return kills_ + kills > kMostKills || (needs_a_worker && there == 0) ||
                   (fault == TeamFault::kill_joiner && joiners_.empty()) ||
                   (fault == TeamFault::join && joiners_.size() >= 2);
        });
        return possible;
    }

    void kill_some(size_t most) {
        std::vector<pid_t> all = workers();
        const auto first = static_cast<size_t>(dice_.between(0, std::max<int64_t>(0, std::ssize(all) - 1)));
        for (size_t i = 0; i < std::min(most, all.size()); ++i) {
            kill(all[(first + i) % all.size()], SIGKILL);
            ++kills_;
        }
    }
    // How long it stood still.
    double freeze(pid_t process, double seconds) {
        const auto since = Clock::now();
        kill(process, SIGSTOP);
        pause_for(seconds);
        kill(process, SIGCONT);
        return seconds_since(since);
    }
    double freeze_a_worker(double seconds) {
        const std::vector<pid_t> all = workers();
        return all.empty() ? 0 : freeze(dice_.one_of(all), seconds);
    }
    void let_one_join() {
        for (const pid_t worker : workers()) {
            if (const auto invitation = invitation_of(worker)) {
                joiners_.push_back(join_run(*invitation, cat("joiner-", ++joined_)));
                return;
            }
        }
    }
    // For how long it held something up on purpose.
    double do_to_it(TeamFault fault) {
        const auto moment = static_cast<double>(dice_.between(50, 1500)) / 1000;
        switch (fault) {
            case TeamFault::kill_worker:
                kill_some(1);
                return 0;
            case TeamFault::kill_all_workers:
                kill_some(kMostWorkers);
                return 0;
            case TeamFault::freeze_worker:
                return freeze_a_worker(moment);
            case TeamFault::lose_worker:
                return freeze_a_worker(kSilence + 1 + moment);
            case TeamFault::freeze_leader:
                return freeze(leader_.id(), dice_.one_in(8) ? kSilence + 1 : moment);
            case TeamFault::join:
                let_one_join();
                return 0;
            case TeamFault::kill_joiner:
                joiners_.back()->send(SIGKILL);
                return 0;
            case TeamFault::kill_leader:
                leader_.send(SIGKILL);
                return 0;
            case TeamFault::stop_leader:
                leader_.send(dice_.one_of<int>({SIGTERM, SIGINT}));
                return 0;
            default:
                throw Error(cat(name_of(fault), ": these workers have no cables"));
        }
        return 0;
    }
    void end_joiners() {
        for (const auto& joiner : joiners_) {
            joiner->send(SIGKILL);
        }
    }

    static constexpr double longest_run_ = 300;
    RunningChild leader_;
    const fs::path metrics_;
    Dice& dice_;
    TeamTally& tally_;
    std::vector<std::string>& log_;
    std::vector<std::unique_ptr<RunningChild>> joiners_;
    int64_t joined_ = 0;
    int64_t kills_ = 0;
    bool is_first_ = true;
    bool is_told_ = false;  // to end, one way or the other
};

class TeamRound {
public:
    TeamRound(const TeamSoakOptions& options, uint64_t seed, fs::path folder, TeamTally& tally, RoundReport& report)
        : options_(options),
          dice_(seed),
          folder_(std::move(folder)),
          run_(folder_ / "team" / "run"),
          tally_(tally),
          report_(report) {}

    void run() {
        fs::create_directories(folder_ / "inputs");
        job_ = make_job(dice_, folder_ / "inputs");
        job_.settings["compute.device"] = "cpu";
        const bool is_slow = job_.settings.contains("model.from") ? false : true;
        job_.settings["schedule.steps"] = cat(is_slow ? dice_.between(10, 20) : dice_.between(80, 240));
        report_.job = job_.description;
        const ExpectedRun expected = run_alone();
        const TemporaryFilesIn temporary(folder_ / "temporary");
        run_by_workers(expected);
        for (const auto& entry : fs::directory_iterator(folder_ / "temporary")) {
            throw Error(cat(entry.path().string(), " was left over"));
        }
    }

private:
    ExpectedRun run_alone() {
        const fs::path run = folder_ / "alone" / "run";
        fs::create_directories(run.parent_path());
        (void)execute(train_command(options_.program, run, job_, {}), run, 0);
        ExpectedRun expected{.model = files_below(run / "model"), .metrics = run / "metrics.jsonl"};
        check_results(run, expected);
        return expected;
    }

    void run_by_workers(const ExpectedRun& expected) {
        fs::create_directories(run_.parent_path());
        RunWatch watch(run_, expected);
        const int64_t all = tally_.faults() + dice_.between(3, kMostFaults);
        bool has_ended = false;
        while (!has_ended && tally_.faults() < all) {
            has_ended = execute(next_command(dice_.between(1, kMostWorkers)), run_, all - tally_.faults()) == 0;
            watch.look();
        }
        if (!has_ended) {
            (void)execute(next_command(dice_.between(0, kMostWorkers)), run_, 0);
            watch.look();
        }
        (void)execute(next_command(0), run_, 0);
        check_results(run_, expected);
        check_nothing_left(run_);
    }

    // Goes on with what there is, by so many workers; 0 = alone.
    Command next_command(int64_t workers) {
        KeyValues changes = free_settings(dice_);
        const bool has_begun = fs::exists(run_ / "run.toml");
        Command command = has_begun ? resume_command(options_.program, run_, changes)
                                    : train_command(options_.program, run_, job_, changes);
        tally_.resumes += has_begun ? 1 : 0;
        if (workers > 0) {
            command.arguments.insert(command.arguments.end(), {"--workers", std::to_string(workers)});
        }
        return command;
    }

    int execute(const Command& command, const fs::path& run, int64_t faults) {
        report_.log.push_back(shell_text(command));
        LedRun led(command, run / "metrics.jsonl", dice_, tally_, report_.log);
        while (faults-- > 0 && led.disturb(options_.kinds)) {
        }
        return led.end();
    }

    const TeamSoakOptions& options_;
    Dice dice_;
    fs::path folder_;
    fs::path run_;
    TeamTally& tally_;
    RoundReport& report_;
    Job job_;
};

}  // namespace

int64_t TeamTally::faults() const {
    int64_t all = 0;
    for (const auto& [fault, seconds] : pauses) {
        all += std::ssize(seconds);
    }
    return all;
}

std::string TeamTally::text() const {
    std::string text = cat(rounds, " rounds, ", resumes, " resumes, ", faults(), " faults");
    for (auto [fault, seconds] : pauses) {
        std::ranges::sort(seconds);
        text += fmt::format("\n{:>16}: {:3} times, a step (or the end) after {:.2f} s, at most {:.2f} s",
                            name_of(fault), seconds.size(), seconds[seconds.size() / 2], seconds.back());
    }
    return text;
}

namespace {

RoundReport run_local_round(const TeamSoakOptions& options, uint64_t seed, const fs::path& folder, TeamTally& tally) {
    RoundReport report;
    try {
        TeamRound(options, seed, folder, tally, report).run();
        ++tally.rounds;
    } catch (const Error& error) {
        report.problem = error.what();
    }
    return report;
}

}  // namespace

RoundReport run_team_round(const TeamSoakOptions& options, uint64_t seed, const fs::path& folder, TeamTally& tally) {
    TeamSoakOptions local = options;
    TeamSoakOptions cables = options;
    std::erase_if(local.kinds, is_of_cables);
    std::erase_if(cables.kinds, [](TeamFault fault) { return !is_of_cables(fault); });
    cables.kinds.erase(std::unique(cables.kinds.begin(), cables.kinds.end()), cables.kinds.end());
    const bool may_cut = options.may_cut && !cables.kinds.empty();
    constexpr uint64_t kOneInSoMany = 3;
    if (may_cut && (local.kinds.empty() || seed % kOneInSoMany == 0)) {
        return run_cable_round(cables, seed, folder, tally);
    }
    return run_local_round(local, seed, folder, tally);
}

}  // namespace accrue::soaking
