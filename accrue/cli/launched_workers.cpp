#include "accrue/cli/launched_workers.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/dist/network_address.h"
#include "accrue/train/memory_budget.h"

namespace accrue {
namespace {

// Threads that do not wait for those of others on this machine: of those that the launcher leaves to this process, or a part.
int64_t threads_of(const Launch& launch) {
    const int64_t machine = std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN));
    const auto allowed = static_cast<int64_t>(std::thread::hardware_concurrency());
    return std::max<int64_t>(1, std::min(allowed, machine / launch.local_size));
}

}  // namespace

WorkCommand work_of(const Launch& launch, const AskedRun& asked) {
    const Settings::Workers& network = asked.settings.workers;
    WorkCommand work;
    work.join = launch.coordinator;
    work.name = cat("number-", launch.rank);
    work.memory = std::to_string(memory_of_machine().bytes / launch.local_size);
    work.threads = threads_of(launch);
    work.certificates = network.certificates;
    work.insecure_network = network.insecure_network;
    work.asked = asked.text;
    work.ends_with_run = true;
    work.is_quiet = true;
    if (!network.token.empty()) {
        ::setenv(kTokenVariable, network.token.c_str(), 1);
    }
    return work;
}

LaunchedWorkers::LaunchedWorkers(CoordinatorDesk& desk, const GrpcServerOptions& options, const Launch& launch,
                                 WorkCommand own)
    : desk_(desk),
      options_(options),
      launch_(launch),
      own_(std::move(own)),
      others_(desk, options, launch.size, RemoteWorkers::Says::who_is_there) {}

void LaunchedWorkers::start(Answers& leader) {
    others_.start(leader);
    if (launch_.coordinator.empty()) {
        meeting_.emplace(
            launch_.job,
            MeetingPoint{.address = others_.address(), .run = options_.terms.run, .token = options_.terms.token});
        own_.join = others_.address();
    }
    ::setenv(kTokenVariable, options_.terms.token.c_str(), 1);  // for the own worker: not among its words
    start_own();
}

void LaunchedWorkers::start_own() {
    own_.name = cat("number-0", started_ == 0 ? "" : cat("-", started_));
    ++started_;
    started_at_ = Clock::now();
    std::vector<std::string> words = {"work",
                                      "--join",
                                      own_.join,
                                      "--name",
                                      own_.name,
                                      "--run",
                                      options_.terms.run,
                                      "--memory",
                                      own_.memory,
                                      "--threads",
                                      std::to_string(own_.threads),
                                      "--parent",
                                      std::to_string(getpid()),
                                      "--joins"};
    if (!own_.certificates.empty()) {
        words.insert(words.end(), {"--certificates", own_.certificates});
    }
    if (own_.insecure_network) {
        words.emplace_back("--insecure-network");
    }
    output_ = UnnamedFile();
    starting_.run([&] { process_ = std::make_unique<ChildProcess>(words, output_.path()); });
}

std::vector<std::string> LaunchedWorkers::look_after() {
    std::vector<std::string> news = others_.look_after();
    if (process_ && process_->has_ended()) {
        const int code = process_->wait();
        process_.reset();
        desk_.leave(own_.name);
        if (code < 128) {
            throw Error(cat("worker ", own_.name, " has ended: ", last_words_in(output_.path())));
        }
        ++killed_;
        short_lives_.note_killed(code - 128, seconds_since(started_at_));
        news.push_back(cat("worker ", own_.name, " was killed by signal ", code - 128, " and is started again"));
        start_own();
    }
    return news;
}

void LaunchedWorkers::close() {
    meeting_.reset();
    others_.close();
    process_.reset();
}

}  // namespace accrue
