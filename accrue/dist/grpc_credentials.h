#pragma once

#include <memory>
#include <string>

#include "accrue/dist/grpc_options.h"
#include "accrue/dist/network_address.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace accrue {

// An Error where what is sent would leave this machine in clear, without leave.
[[nodiscard]] std::shared_ptr<grpc::ServerCredentials> server_credentials(const NetworkAddress& address,
                                                                          const NetworkSafety& safety);
[[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> worker_credentials(const NetworkAddress& address,
                                                                           const NetworkSafety& safety);

// A line about what everybody in the network could read; empty where nobody can.
[[nodiscard]] std::string safety_warning(const NetworkAddress& address, const NetworkSafety& safety);

// gRPC writes to standard error what it finds noteworthy, such as each connection that sends rubbish: not from now on, unless
// GRPC_VERBOSITY asks for it. For the whole process.
void quiet_grpc();

}  // namespace accrue
