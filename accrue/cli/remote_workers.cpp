#include "accrue/cli/remote_workers.h"

#include <algorithm>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/cli/listening.h"

namespace accrue {
namespace {

// To hear that the run has ended, for those too that have yet to meet: who does not live any more is gone before.
constexpr double kMostSecondsToHear = 60;

// Each connection is an open file, and strangers may open many.
void allow_many_files() {
    struct rlimit limit {};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

std::string workers_text(int64_t count) {
    return cat(count, count == 1 ? " worker" : " workers");
}

}  // namespace

RemoteWorkers::RemoteWorkers(CoordinatorDesk& desk, GrpcServerOptions options, int64_t workers, Says says)
    : desk_(desk), options_(std::move(options)), workers_(workers), says_(says) {}

void RemoteWorkers::start(Answers& leader) {
    allow_many_files();
    server_ = std::make_unique<GrpcServer>(desk_, leader, options_);
    for (const std::string& line : network_warnings(server_->address(), options_.safety)) {
        news_.push_back(line);
    }
    if (says_ == Says::how_to_join) {
        news_.push_back(cat("Waiting for ", workers_text(workers_), " at ", server_->address(),
                            ". On each machine that is to compute, now or later, type:"));
        news_.push_back(join_text(server_->address(), options_));
    }
}

void RemoteWorkers::tell_who_is_there() {
    const auto standing = desk_.standing();
    if (standing.roster == 0 && standing.present != told_present_ && workers_ > 1) {
        news_.push_back(
            cat(standing.present, " of ", workers_text(workers_), " ", standing.present == 1 ? "is" : "are", " there"));
    }
    told_present_ = standing.present;
    if (standing.present > 0) {
        is_waiting_ = false;
    } else if (!is_waiting_) {
        is_waiting_ = true;
        news_.emplace_back("No worker is left: the run waits for one. On any machine, type:");
        news_.push_back(join_text(server_->address(), options_));
    }
}

std::vector<std::string> RemoteWorkers::look_after() {
    for (std::string& line : server_->take_refusals()) {
        news_.push_back(std::move(line));
    }
    tell_who_is_there();
    return std::exchange(news_, {});
}

void RemoteWorkers::end() {
    const auto start = Clock::now();
    while (!desk_.heard().empty() && seconds_since(start) < kMostSecondsToHear) {
        usleep(10'000);
    }
}

void RemoteWorkers::close() {
    desk_.close();
    server_.reset();
}

}  // namespace accrue
