#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accrue/dist/coordinator_desk.h"
#include "accrue/dist/grpc_options.h"
#include "accrue/dist/link.h"

namespace accrue {

// Lets workers on other machines, and in other processes, call a coordinator (GrpcLink). Who does not know the join terms is
// refused; what is sent by others, whatever it is, disturbs nobody.
class GrpcServer {
public:
    // Both outlive it. An Error if nobody can listen there, or if others could listen and that was not allowed.
    GrpcServer(CoordinatorDesk& desk, Answers& answers, const GrpcServerOptions& options);
    // Workers that call, or wait, find nobody any more. Waits for the answers that are being made.
    ~GrpcServer();
    GrpcServer(const GrpcServer&) = delete;
    GrpcServer& operator=(const GrpcServer&) = delete;

    // host:port, with the port that was picked.
    [[nodiscard]] const std::string& address() const { return address_; }
    // A line for people; empty where there is nothing to warn of.
    [[nodiscard]] const std::string& warning() const { return warning_; }
    // Who was refused since the last call, and why: a line each, for a log.
    [[nodiscard]] std::vector<std::string> take_refusals();

private:
    struct Parts;

    std::string address_;
    std::string warning_;
    std::unique_ptr<Parts> parts_;
};

}  // namespace accrue
