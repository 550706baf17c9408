#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "accrue/base/clock.h"
#include "accrue/base/unnamed_file.h"
#include "accrue/cli/child_process.h"
#include "accrue/cli/short_lives.h"
#include "accrue/cli/starting_thread.h"
#include "accrue/dist/coordinator_desk.h"
#include "accrue/dist/grpc_server.h"
#include "accrue/train/team/team_leader.h"

namespace accrue {

// The workers of a run on this machine: processes of this program, which are started again when they are killed. They end with
// this process.
class WorkerProcesses final : public Workforce {
public:
    // The desk must outlive it. `run`: a name.
    WorkerProcesses(CoordinatorDesk& desk, std::string run, int64_t workers);
    ~WorkerProcesses() override { close(); }

    void start(Answers& leader) override;
    [[nodiscard]] std::vector<std::string> look_after() override;
    void end() override;
    [[nodiscard]] int64_t killed() const override { return killed_; }
    // Whoever answers is about to go: no worker is heard any more.
    void close();

private:
    struct Worker {
        std::string name;
        UnnamedFile output;
        std::unique_ptr<ChildProcess> process;
        Clock::time_point started;
    };

    void start_one();

    CoordinatorDesk& desk_;
    std::string run_;
    std::string token_;
    int64_t workers_;
    std::unique_ptr<GrpcServer> server_;
    StartingThread starting_;  // before those that it starts
    std::deque<Worker> all_;   // those that have ended too
    int64_t started_ = 0;
    int64_t killed_ = 0;
    ShortLives short_lives_;
};

}  // namespace accrue
