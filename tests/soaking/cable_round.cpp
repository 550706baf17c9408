#include "tests/soaking/cable_round.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "tests/soaking/cable_network.h"
#include "tests/soaking/commands.h"
#include "tests/soaking/job.h"
#include "tests/soaking/judge.h"
#include "tests/soaking/team_processes.h"
#include "tests/soaking/waiting.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewestFaults = 3;  // as many as there are kinds, one after another
constexpr int64_t kMostFaults = 4;
constexpr int64_t kMostWorkers = 3;
constexpr int64_t kLeader = 0;  // its machine; those of workers follow
// So that a cut is soon longer than it.
constexpr double kSilence = 2;
// What was lost on its way is sent again after ever longer pauses, a message may take 30 s, and a machine may be busy.
constexpr double kLongestPause = 90;
constexpr int64_t kMoreSteps = 3;  // by one process, from where the workers stopped
constexpr const char* kPort = ":7700";

class CableRound {
public:
    CableRound(const TeamSoakOptions& options, uint64_t seed, fs::path folder, TeamTally& tally, RoundReport& report)
        : options_(options),
          dice_(seed),
          folder_(std::move(folder)),
          run_(folder_ / "team" / "run"),
          tally_(tally),
          report_(report),
          size_(dice_.between(2, kMostWorkers)),
          network_(1 + size_) {}

    void run() {
        prepare_job();
        start();
        const int64_t first = dice_.between(0, std::ssize(options_.kinds) - 1);
        const int64_t faults = dice_.between(kFewestFaults, kMostFaults);
        for (int64_t number = 0; number < faults; ++number) {
            disturb(options_.kinds[static_cast<size_t>(first + number) % options_.kinds.size()]);
        }
        stop();
        compare();
    }

private:
    // It goes on for longer than anybody waits, and no step depends on how many there are.
    void prepare_job() {
        fs::create_directories(folder_ / "inputs");
        fs::create_directories(run_.parent_path());
        job_ = make_job(dice_, folder_ / "inputs");
        for (const auto& [key, value] : KeyValues{{"compute.device", "cpu"},
                                                  {"schedule.kind", "constant"},
                                                  {"schedule.warmup_steps", "0"},
                                                  {"schedule.steps", "1000000"},
                                                  {"workers.heartbeat_seconds", cat(static_cast<int>(kSilence))},
                                                  {"workers.insecure_network", "true"}}) {
            job_.settings[key] = value;
        }
        report_.job = cat(job_.description, ", ", size_, " workers behind cables");
    }

    void start() {
        setenv("ACCRUE_WORKER_TOKEN", "soak", 1);
        const std::string address = CableNetwork::address(kLeader) + kPort;
        Command serve = train_command(options_.program, run_, job_, free_settings(dice_));
        serve.arguments[0] = "serve";
        serve.arguments.insert(serve.arguments.end(), {"--listen", address, "--workers", std::to_string(size_)});
        leader_ = begin(kLeader, serve);
        for (int64_t worker = 1; worker <= size_; ++worker) {
            workers_.push_back(
                begin(worker, {.program = options_.program,
                               .arguments = {"work", "--join", address, "--insecure-network", "--threads", "1"}}));
        }
        unsetenv("ACCRUE_WORKER_TOKEN");
        await_steps(1, kLongestPause, "after its start");
    }
    std::unique_ptr<RunningChild> begin(int64_t machine, const Command& command) {
        const Command there = network_.on(machine, command);
        report_.log.push_back(shell_text(there));
        return std::make_unique<RunningChild>(there);
    }

    void disturb(TeamFault fault) {
        pause_for(static_cast<double>(dice_.between(0, 500)) / 1000);
        const int64_t machine = fault == TeamFault::cut_leader ? kLeader : dice_.between(1, size_);
        network_.pull(machine);
        const auto since = Clock::now();
        while_cut(fault);
        const double held = seconds_since(since);
        network_.plug_in(machine);
        const auto plugged = Clock::now();
        await_steps(1, kLongestPause, cat("after ", name_of(fault)));
        const double pause = seconds_since(plugged);
        await_all_workers(fault);
        tally_.pauses[fault].push_back(pause);
        report_.log.push_back(
            fmt::format("    # {} of machine {} for {:.2f} s: a step {:.2f} s after it, all there after {:.2f} s",
                        name_of(fault), machine, held, pause, seconds_since(plugged)));
    }

    void while_cut(TeamFault fault) {
        if (fault == TeamFault::cut_worker_briefly) {
            pause_for(static_cast<double>(dice_.between(50, 1500)) / 1000);
        } else if (fault == TeamFault::cut_worker) {
            // One step may have been as good as done: two are those of the others alone.
            await_steps(2, kLongestPause, "while a worker was cut off");
        } else {
            const int64_t before = steps();
            pause_for(kSilence + static_cast<double>(dice_.between(500, 3000)) / 1000);
            if (steps() > before + 1) {
                throw Error(cat("the run made ", steps() - before, " steps while its leader was cut off"));
            }
        }
    }

    // A number of the newest step that is there as a whole; 0 = there is none. The file is long, and is asked often.
    [[nodiscard]] int64_t newest(const char* what) const {
        constexpr int64_t kLongerThanTwoLines = 16384;
        std::ifstream file(run_ / "metrics.jsonl", std::ios::binary | std::ios::ate);
        const int64_t size = file ? static_cast<int64_t>(file.tellg()) : 0;
        std::string text(static_cast<size_t>(std::min(size, kLongerThanTwoLines)), ' ');
        file.seekg(size - std::ssize(text));
        file.read(text.data(), std::ssize(text));
        const size_t end = text.rfind('\n');
        if (end == std::string::npos) {
            return 0;
        }
        text.resize(end);
        return nlohmann::json::parse(text.substr(text.rfind('\n') + 1)).at(what);  // npos + 1 = 0
    }
    [[nodiscard]] int64_t steps() const { return newest("step"); }

    void await_steps(int64_t more, double seconds, const std::string& when) {
        const int64_t before = steps();
        if (!wait_until(seconds, [&] { return leader_->has_ended() || steps() >= before + more; })) {
            throw Error(cat("it stood still for ", seconds, " s ", when));
        }
        require_all_live();
    }
    void await_all_workers(TeamFault fault) {
        if (!wait_until(kLongestPause, [&] { return leader_->has_ended() || newest("workers") == size_; })) {
            throw Error(
                cat("whoever was cut off by ", name_of(fault), " did not come again within ", kLongestPause, " s"));
        }
        require_all_live();
    }
    void require_all_live() {
        if (leader_->has_ended()) {
            throw Error(cat("the leader has ended: ", leader_->output()));
        }
        for (const auto& worker : workers_) {
            if (worker->has_ended()) {
                throw Error(cat("a worker has ended: ", worker->output()));
            }
        }
    }

    void stop() {
        leader_->send(SIGTERM);
        if (!wait_until(kLongestPause, [&] { return leader_->has_ended(); }) || leader_->exit_code() != 3) {
            throw Error(cat("the leader was not saved: ", leader_->output()));
        }
        for (const auto& worker : workers_) {
            if (!wait_until(kLongestPause, [&] { return worker->has_ended(); }) || worker->exit_code() != 0) {
                throw Error(cat("a worker did not hear of the end: ", worker->output()));
            }
        }
    }

    void compare() {
        const std::string all = cat("schedule.steps=", steps() + kMoreSteps);
        execute(resume_command(options_.program, run_, {}), all);
        const fs::path alone = folder_ / "alone" / "run";
        fs::create_directories(alone.parent_path());
        execute(train_command(options_.program, alone, job_, {}), all);
        check_results(run_, {.model = files_below(alone / "model"), .metrics = alone / "metrics.jsonl"});
        check_nothing_left(run_);
    }
    void execute(Command command, const std::string& setting) {
        command.arguments.insert(command.arguments.end(), {"--set", setting});
        report_.log.push_back(shell_text(command));
        RunningChild child(command);
        if (!wait_until(300, [&] { return child.has_ended(); }) || child.exit_code() != 0) {
            throw Error(cat("it did not end well: ", child.output()));
        }
    }

    const TeamSoakOptions& options_;
    Dice dice_;
    fs::path folder_;
    fs::path run_;
    TeamTally& tally_;
    RoundReport& report_;
    const int64_t size_;
    const CableNetwork network_;
    Job job_;
    std::unique_ptr<RunningChild> leader_;
    std::vector<std::unique_ptr<RunningChild>> workers_;
};

}  // namespace

RoundReport run_cable_round(const TeamSoakOptions& options, uint64_t seed, const fs::path& folder, TeamTally& tally) {
    RoundReport report;
    try {
        CableRound(options, seed, folder, tally, report).run();
        ++tally.rounds;
    } catch (const Error& error) {
        report.problem = error.what();
    }
    return report;
}

}  // namespace accrue::soaking
