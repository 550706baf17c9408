// How much of a machine does the coordinator of 1,000 workers take? bench/coordinator_load runs it and judges.
//
// The coordinator is this process: a desk behind the real gRPC server. The workers are threads of another process, each with a link, a
// connection and a heartbeat of its own, that compute nothing: each leases a grain a second, which also says that it has the one before.
// Prints what the coordinator's process took, as JSON.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/main.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/dist/grpc_link.h"
#include "accrue/dist/grpc_server.h"

namespace accrue {
namespace {

struct Load {
    int64_t workers = 1000;
    int64_t seconds = 20;  // of leasing
    int64_t tensors = 2;
};

const JoinTerms kTerms{.program_version = "bench", .run = "bench", .token = "bench"};

WindowRecord window_of(const Load& load) {
    return {.window = {.first = {}, .samples = load.workers * load.seconds},
            .step = 1,
            .units = Units(std::vector<int32_t>(static_cast<size_t>(load.tensors), -20)),
            .rate = 0.1,
            .beta2 = 0.9};
}

// Where all workers are.
enum class Phase : char { begun = 'b', leased = 'l', voted = 'v' };

// One worker. `arrive` is called by all after each phase.
void work(const Load& load, const std::string& address, int64_t number, Clock::time_point& start,
          const std::function<void(Phase)>& arrive) {
    const std::string name = cat("worker-", number);
    GrpcLink link({.address = address, .worker = name, .terms = kTerms, .patience = std::chrono::minutes(5)});
    const Roster roster = link.meet({.worker = name});
    CallPlace place{.worker = name, .term = roster.term, .roster = roster.number, .call = 0};
    const auto next = [&] { return ++place.call, place; };
    GrainLedger mine(load.workers * load.seconds, load.tensors);
    link.begin(next(), window_of(load), mine);
    arrive(Phase::begun);
    for (int64_t second = 0; second < load.seconds; ++second) {
        // Not all at the same moment.
        std::this_thread::sleep_until(start + std::chrono::milliseconds(1000 * second + 1000 * number / load.workers));
        for (const int64_t grain : link.lease(next(), 1)) {
            mine.grain(grain) = {.finished = true, .loss_sum = 1, .counted_tokens = 3};
        }
    }
    arrive(Phase::leased);
    while (true) {
        const std::vector<int64_t> left = link.lease(next(), 1);
        if (left.empty()) {
            break;
        }
        mine.grain(left.front()) = {.finished = true, .loss_sum = 1, .counted_tokens = 3};
    }
    (void)link.agree(next(), mine, false);
    const auto owners = static_cast<size_t>(load.workers);
    const Verdict verdict = link.vote(next(), 0, {.given = std::vector<uint64_t>(owners, 1),
                                                  .total = std::vector<uint64_t>(owners, owners)});
    if (!verdict.commits) {
        throw Error("the window did not count: " + verdict.fault);
    }
    arrive(Phase::voted);
}

// The other process: says each phase to the pipe, with the leases that were made in it.
int work_all(const Load& load, const std::string& address, int told) {
    Clock::time_point start;
    std::atomic<int> phase = 0;
    std::barrier together(load.workers, [&]() noexcept {
        start = Clock::now();
        const std::string phases = "blv";
        if (write(told, &phases[static_cast<size_t>(phase++)], 1) != 1) {
            _exit(1);
        }
    });
    std::vector<std::jthread> threads;
    for (int64_t number = 0; number < load.workers; ++number) {
        threads.emplace_back([&, number] {
            try {
                work(load, address, number, start, [&](Phase) { together.arrive_and_wait(); });
            } catch (const std::exception& error) {
                std::fprintf(stderr, "worker %lld: %s\n", static_cast<long long>(number), error.what());
                _exit(1);
            }
        });
    }
    threads.clear();
    _exit(0);
}

class NoAnswers final : public Answers {
public:
    std::string answer(const std::string&, const std::string&, const std::string&) override { return ""; }
};

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t status_bytes(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(field + ":")) {
            return std::stoll(line.substr(field.size() + 1)) * 1024;
        }
    }
    return 0;
}

// Until the workers have come to the end of their next phase.
nlohmann::ordered_json measure_phase(int heard) {
    const auto start = Clock::now();
    const double before = cpu_seconds();
    char phase = 0;
    if (read(heard, &phase, 1) != 1) {
        throw Error("the workers have failed, see above");
    }
    return {{"seconds", seconds_since(start)},
            {"cpu_seconds", cpu_seconds() - before},
            {"resident_bytes", status_bytes("VmRSS")},
            {"peak_bytes", status_bytes("VmHWM")}};
}

int coordinate(const Load& load) {
    // The other process is made while this one has no threads; it gets the address when there is one.
    int told[2];
    int address_pipe[2];
    if (pipe(told) != 0 || pipe(address_pipe) != 0) {
        throw Error("a pipe could not be made");
    }
    const pid_t workers = fork();
    if (workers == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(told[0]);
        char address[64] = {};
        if (read(address_pipe[0], address, sizeof address - 1) <= 0) {
            _exit(1);
        }
        return work_all(load, address, told[1]);
    }
    close(told[1]);
    CoordinatorDesk desk({.silence_seconds = 10, .least_workers = load.workers, .gather_seconds = 600});
    NoAnswers answers;
    GrpcServer server(desk, answers, {.terms = kTerms});
    if (write(address_pipe[1], server.address().data(), server.address().size()) < 0) {
        throw Error("the workers did not take the address");
    }
    nlohmann::ordered_json result = {{"workers", load.workers}, {"leases_a_second", load.workers}};
    result["meeting"] = measure_phase(told[0]);
    result["leasing"] = measure_phase(told[0]);
    result["voting"] = measure_phase(told[0]);
    const auto standing = desk.standing();
    result["workers_at_the_end"] = standing.members.size();
    result["rosters"] = standing.roster;
    std::printf("%s\n", result.dump(2).c_str());
    int status = 0;
    waitpid(workers, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run(int argc, char** argv) {
    Load load;
    CLI::App app("What the coordinator of many workers takes");
    app.add_option("--workers", load.workers)->capture_default_str();
    app.add_option("--seconds", load.seconds, "Of leasing")->capture_default_str();
    app.add_option("--tensors", load.tensors, "Of the model: each grain has a record of each")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    return coordinate(load);
}

}  // namespace
}  // namespace accrue

int main(int argc, char** argv) {
    return accrue::run_or_say_error("coordinator_load", [&] { return accrue::run(argc, argv); });
}
