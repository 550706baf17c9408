#include "accrue/cli/worker_processes.h"

#include <cstdlib>

#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/cli/listening.h"
#include "accrue/cli/work_command.h"

namespace accrue {
namespace {

// To end by themselves when a run has ended.
constexpr double kMostSecondsToEnd = 10;

}  // namespace

WorkerProcesses::WorkerProcesses(CoordinatorDesk& desk, std::string run, int64_t workers)
    : desk_(desk), run_(std::move(run)), token_(random_token()), workers_(workers) {}

void WorkerProcesses::start(Answers& leader) {
    server_ = std::make_unique<GrpcServer>(
        desk_, leader,
        GrpcServerOptions{.address = "127.0.0.1:0",
                          .terms = {.program_version = program_version(), .run = run_, .token = token_}});
    setenv(kTokenVariable, token_.c_str(), 1);  // for children alone: nothing here reads it
    for (int64_t number = 0; number < workers_; ++number) {
        start_one();
    }
}

void WorkerProcesses::start_one() {
    Worker worker{.name = std::to_string(++started_), .output = {}, .process = nullptr, .started = Clock::now()};
    starting_.run([&] {
        worker.process = std::make_unique<ChildProcess>(
            std::vector<std::string>{"work", "--join", server_->address(), "--name", worker.name, "--run", run_,
                                     "--parent", std::to_string(getpid())},
            worker.output.path());
    });
    all_.push_back(std::move(worker));
}

// A signal's victim is replaced; who ends by itself says why, and nobody else would fare better.
std::vector<std::string> WorkerProcesses::look_after() {
    std::vector<std::string> news;
    for (size_t number = 0; number < all_.size(); ++number) {
        Worker& worker = all_[number];
        if (!worker.process || !worker.process->has_ended()) {
            continue;
        }
        const int code = worker.process->wait();
        worker.process.reset();
        desk_.leave(worker.name);
        if (code < 128) {
            throw Error(cat("worker ", worker.name, " has ended: ", last_words_in(worker.output.path())));
        }
        ++killed_;
        short_lives_.note_killed(code - 128, seconds_since(worker.started));
        const std::string killed = worker.name;
        start_one();
        news.push_back(cat("worker ", killed, " was killed by signal ", code - 128, "; worker ", all_.back().name,
                           " takes its place"));
    }
    return news;
}

void WorkerProcesses::end() {
    const auto start = Clock::now();
    for (Worker& worker : all_) {
        while (worker.process && !worker.process->has_ended() && seconds_since(start) < kMostSecondsToEnd) {
            usleep(10'000);
        }
        worker.process.reset();
    }
}

void WorkerProcesses::close() {
    desk_.close();
    all_.clear();
    server_.reset();
}

}  // namespace accrue
