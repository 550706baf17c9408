// Trains random jobs again and again, disturbs them in every way there is, resumes them, and compares what comes out with
// undisturbed runs, bit for bit. docs/soak.md says how to use it.

#include <cstdio>

#include "tests/soaking/cable_network.h"
#include "tests/soaking/round.h"
#include "tests/soaking/small_disk.h"
#include "tests/soaking/team_round.h"
#include "tests/soaking/traced_run.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;

struct Arguments {
    double minutes = 0;
    double seconds = 0;
    int64_t rounds = 0;
    bool workers = false;
    uint64_t seed = 1;
    std::string program = ACCRUE_PROGRAM;
    std::vector<std::string> kinds;
    bool keep = false;

    [[nodiscard]] bool is_over(int64_t done, double spent) const {
        const double most = minutes * 60 + seconds;
        return (rounds > 0 && done >= rounds) || (most > 0 && spent >= most);
    }
};

SoakOptions options_of(const Arguments& arguments) {
    SoakOptions options{.program = fs::absolute(arguments.program)};
    if (!fs::exists(options.program)) {
        throw Error(cat("--program: ", options.program.string(), " is not there. Build it with: make build"));
    }
    if (!arguments.kinds.empty()) {
        options.kinds.clear();
        for (const std::string& name : arguments.kinds) {
            options.kinds.push_back(kind_named(name));
        }
    }
    options.may_trace = can_trace();
    if (!options.may_trace) {
        fmt::print("ptrace or seccomp is not allowed here: only signals at random moments.\n");
    }
    options.may_mount = options.may_trace && can_mount();
    if (!options.may_mount) {
        fmt::print("mount is not allowed here: no small disks.\n");
    }
    return options;
}

TeamSoakOptions team_options_of(const Arguments& arguments) {
    TeamSoakOptions options{.program = fs::absolute(arguments.program)};
    if (!fs::exists(options.program)) {
        throw Error(cat("--program: ", options.program.string(), " is not there. Build it with: make build"));
    }
    if (!arguments.kinds.empty()) {
        options.kinds.clear();
        for (const std::string& name : arguments.kinds) {
            options.kinds.push_back(team_fault_named(name));
        }
    }
    const std::string why_no_cables = CableNetwork::why_none();
    options.may_cut = why_no_cables.empty();
    if (!options.may_cut) {
        fmt::print("network namespaces cannot be made here: no cables are pulled ({}).\n", why_no_cables);
        std::erase_if(options.kinds, is_of_cables);
    }
    return options;
}

void tell_problem(const RoundReport& report, const char* option, uint64_t seed, const fs::path& folder) {
    fmt::print("\nA fault, found with seed {} ({}):\n{}\n\nWhat was done, in {} :\n", seed, report.job, report.problem,
               folder.string());
    for (const std::string& line : report.log) {
        fmt::print("{}\n", line);
    }
    fmt::print("\nRepeat it with: tests/soak {}--rounds 1 --seed {}\n", option, seed);
}

// Round after round; false if one found a problem.
template <class Tally, class RunRound>
bool go_through_rounds(const Arguments& arguments, const Tally& tally, const RunRound& run_round) {
    const auto start = Clock::now();
    for (uint64_t seed = arguments.seed; !arguments.is_over(tally.rounds, seconds_since(start)); ++seed) {
        const fs::path folder = fs::canonical(fs::temp_directory_path()) / cat("accrue-soak-", getpid(), "-", seed);
        const RoundReport report = run_round(seed, folder);
        if (!report.problem.empty()) {
            tell_problem(report, arguments.workers ? "--workers " : "", seed, folder);
            return false;
        }
        if (!arguments.keep) {
            fs::remove_all(folder);
        }
        fmt::print("seed {}: {}: same bits after {} commands\n", seed, report.job, report.log.size());
        std::fflush(stdout);
    }
    fmt::print("{}\n", tally.text());
    return true;
}

int end_with(int64_t disturbances) {
    if (disturbances == 0) {
        fmt::print("Nothing was disturbed, so nothing was shown.\n");
        return 1;
    }
    return 0;
}

int soak(const Arguments& arguments) {
    const SoakOptions options = options_of(arguments);
    Tally tally;
    const bool is_good = go_through_rounds(arguments, tally, [&](uint64_t seed, const fs::path& folder) {
        return run_round(options, seed, folder, tally);
    });
    return is_good ? end_with(tally.all_landed()) : 1;
}

int soak_workers(const Arguments& arguments) {
    const TeamSoakOptions options = team_options_of(arguments);
    TeamTally tally;
    const bool is_good = go_through_rounds(arguments, tally, [&](uint64_t seed, const fs::path& folder) {
        return run_team_round(options, seed, folder, tally);
    });
    return is_good ? end_with(tally.faults()) : 1;
}

int run(int argc, char** argv) {
    Arguments arguments;
    CLI::App app("Trains random jobs, disturbs and resumes them, and compares the bits.", "soak");
    app.add_option("--minutes", arguments.minutes, "Stop after so many minutes");
    app.add_option("--seconds", arguments.seconds, "Stop after so many seconds");
    app.add_option("--rounds", arguments.rounds, "Stop after so many jobs");
    app.add_option("--seed", arguments.seed, "Of the first job; each next one has the next seed")
        ->capture_default_str();
    app.add_flag("--workers", arguments.workers,
                 "Runs that worker processes compute, which are killed, frozen and joined");
    app.add_option("--program", arguments.program, "The accrue to be tried")->capture_default_str();
    app.add_option("--kinds", arguments.kinds, "Only these disturbances, such as kill,fault,full-disk")->delimiter(',');
    app.add_flag("--keep", arguments.keep, "Keep the folders of good rounds too");
    CLI11_PARSE(app, argc, argv);
    if (arguments.minutes <= 0 && arguments.seconds <= 0 && arguments.rounds <= 0) {
        fmt::print(stderr, "soak: give --minutes, --seconds or --rounds\n");
        return 2;
    }
    return arguments.workers ? soak_workers(arguments) : soak(arguments);
}

}  // namespace
}  // namespace accrue::soaking

int main(int argc, char** argv) {
    try {
        return accrue::soaking::run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "soak: {}\n", error.what());
        return 1;
    }
}
