#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/base/clock.h"
#include "accrue/base/unnamed_file.h"
#include "accrue/cli/asked_run.h"
#include "accrue/cli/child_process.h"
#include "accrue/cli/launcher.h"
#include "accrue/cli/local_meeting.h"
#include "accrue/cli/remote_workers.h"
#include "accrue/cli/short_lives.h"
#include "accrue/cli/starting_thread.h"
#include "accrue/cli/work_command.h"

namespace accrue {

// How a process of a launcher works for the run that number 0 leads: within its part of the machine, for as long as the run goes on.
// Where number 0 is, is left open where all are on one machine.
[[nodiscard]] WorkCommand work_of(const Launch& launch, const AskedRun& asked);

// The workers of a run that a launcher started: number 0's own, which this process starts, and the others, which join.
class LaunchedWorkers final : public Workforce {
public:
    // The desk must outlive it.
    LaunchedWorkers(CoordinatorDesk& desk, const GrpcServerOptions& options, const Launch& launch, WorkCommand own);
    ~LaunchedWorkers() override { close(); }

    void start(Answers& leader) override;
    [[nodiscard]] std::vector<std::string> look_after() override;
    void end() override { others_.end(); }
    [[nodiscard]] int64_t killed() const override { return killed_; }
    void close();

private:
    void start_own();

    CoordinatorDesk& desk_;
    const GrpcServerOptions options_;
    const Launch launch_;
    WorkCommand own_;
    RemoteWorkers others_;
    std::optional<LocalMeeting> meeting_;
    StartingThread starting_;  // before what it starts
    UnnamedFile output_;
    std::unique_ptr<ChildProcess> process_;
    int64_t started_ = 0;
    Clock::time_point started_at_;  // the last one
    int64_t killed_ = 0;
    ShortLives short_lives_;
};

}  // namespace accrue
