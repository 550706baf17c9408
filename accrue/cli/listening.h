#pragma once

#include <string>
#include <vector>

#include "accrue/dist/grpc_options.h"
#include "accrue/train/settings.h"

namespace accrue {

// Where and how a coordinator listens as the settings say, the name of the run left open. An Error, before anything else is
// done, if nobody can listen there, or if others could and nothing keeps them out.
[[nodiscard]] GrpcServerOptions listening_options(const std::string& listen, const Settings::Workers& settings);

// What to type on a machine that is to take part. `address`: where the coordinator listens.
[[nodiscard]] std::string join_text(const std::string& address, const GrpcServerOptions& options);

// Lines about what everybody in the network can read; none where nobody can.
[[nodiscard]] std::vector<std::string> network_warnings(const std::string& address, const NetworkSafety& safety);

// A new secret.
[[nodiscard]] std::string random_token();
// The secret of the environment; "" = there is none.
[[nodiscard]] std::string token_of_environment();

}  // namespace accrue
