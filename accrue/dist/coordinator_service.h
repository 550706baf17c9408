#pragma once

#include <memory>

#include "accrue/dist/asked_questions.h"
#include "accrue/dist/coordinator_desk.h"
#include "accrue/dist/grpc_options.h"
#include "accrue/dist/refusals.h"
#include "accrue/dist/waiting_calls.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace accrue {

// What a service answers with, and who may ask it.
struct ServiceParts {
    CoordinatorDesk& desk;
    AskedQuestions& questions;
    WaitingCalls& calls;
    JoinLimit& joins;
    Refusals& refusals;
};

// The calls of coordinator.proto, answered by a desk. All that it is given outlives it; `calls` end before it does.
[[nodiscard]] std::unique_ptr<grpc::Service> make_coordinator_service(const ServiceParts& parts,
                                                                      const JoinTerms& terms);

}  // namespace accrue
