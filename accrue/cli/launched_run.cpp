#include "accrue/cli/launched_run.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include <unistd.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/cli/asked_run.h"
#include "accrue/cli/join_run.h"
#include "accrue/cli/launched_workers.h"
#include "accrue/cli/local_meeting.h"
#include "accrue/cli/signals.h"
#include "accrue/cli/work_command.h"
#include "accrue/dist/network_address.h"
#include "accrue/observe/status_line.h"

namespace accrue {
namespace {

// For number 0 to read its data and its model, and for its machine to be there.
constexpr int64_t kPatienceSeconds = 600;
constexpr auto kLookForMeeting = std::chrono::milliseconds(100);

// The port of number 0, on all of its interfaces: which of them the others reach, they know.
std::string listening_at(const Launch& launch) {
    return launch.coordinator.empty() ? "127.0.0.1:0"
                                      : text_of(every_interface_for(network_address_of(launch.coordinator)));
}

std::optional<MeetingPoint> wait_for_meeting(const Launch& launch, const StopFlag& stop) {
    const auto start = Clock::now();
    while (seconds_since(start) < kPatienceSeconds) {
        if (auto point = LocalMeeting::find(launch.job)) {
            return point;
        }
        if (stop) {
            return std::nullopt;
        }
        std::this_thread::sleep_for(kLookForMeeting);
    }
    throw Error(cat("number 0 of the ", launch.size, " processes that ", launch.launcher,
                    " started did not lead a run for ", kPatienceSeconds, " s. What does it say?"));
}

// Nothing is left to do where a signal, which went to all of the launcher's processes, came before.
ExitCode work_launched(const TrainCommand& command, const Launch& launch) try {
    WorkCommand work = work_of(launch, asked_run(command));
    if (launch.coordinator.empty()) {
        const auto point = wait_for_meeting(launch, stop_on_signals());
        if (!point) {
            return ExitCode::stopped;
        }
        work.join = point->address;
        work.run = point->run;
        work.meeting = launch.job;
        ::setenv(kTokenVariable, point->token.c_str(), 1);
    }
    return join_run(work);
} catch (const Error& error) {
    throw Error(cat("number ", launch.rank, ": ", error.what()));
}

}  // namespace

ExitCode run_launched(const TrainCommand& command, const Launch& launch) {
    if (launch.rank > 0) {
        return work_launched(command, launch);
    }
    show(stdout, cat(launch.launcher, " started ", launch.size, " processes: this one leads.\n"));
    TrainCommand leading = command;
    leading.workers = launch.size;
    leading.listen = listening_at(launch);
    leading.launch = launch;
    leading.goes_on = launch.restarts > 0;
    return run_train(leading);
}

}  // namespace accrue
