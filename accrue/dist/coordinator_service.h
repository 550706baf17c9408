#pragma once

#include <memory>

#include "accrue/dist/asked_questions.h"
#include "accrue/dist/coordinator_desk.h"
#include "accrue/dist/grpc_options.h"
#include "accrue/dist/waiting_calls.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace accrue {

// The calls of coordinator.proto, answered by a desk. All that it is given outlives it; `calls` end before it does.
[[nodiscard]] std::unique_ptr<grpc::Service> make_coordinator_service(CoordinatorDesk& desk, AskedQuestions& questions,
                                                                      WaitingCalls& calls, const JoinTerms& terms);

}  // namespace accrue
