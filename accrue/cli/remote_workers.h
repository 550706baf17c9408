#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/dist/coordinator_desk.h"
#include "accrue/dist/grpc_server.h"
#include "accrue/train/team/team_leader.h"

namespace accrue {

// The workers of a run that somebody else starts, on this machine or on others, whenever they like: says how, waits for them,
// and names those that were refused.
class RemoteWorkers final : public Workforce {
public:
    enum class Says { how_to_join, who_is_there };
    // The desk must outlive it. `workers`: for so many the first window waits.
    RemoteWorkers(CoordinatorDesk& desk, GrpcServerOptions options, int64_t workers, Says says = Says::how_to_join);
    ~RemoteWorkers() override { close(); }

    void start(Answers& leader) override;
    // Where they join, once it has started.
    [[nodiscard]] const std::string& address() const { return server_->address(); }
    [[nodiscard]] std::vector<std::string> look_after() override;
    void end() override;
    [[nodiscard]] int64_t killed() const override { return 0; }  // those that are gone, the coordinator counts
    // Whoever answers is about to go: no worker is heard any more.
    void close();

private:
    // What there is to say about how many are there.
    void tell_who_is_there();

    CoordinatorDesk& desk_;
    const GrpcServerOptions options_;
    const int64_t workers_;
    const Says says_;
    std::unique_ptr<GrpcServer> server_;
    std::vector<std::string> news_;
    int64_t told_present_ = 0;
    bool is_waiting_ = true;
};

}  // namespace accrue
