#include "accrue/dist/grpc_server.h"

#include <chrono>

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "accrue/dist/coordinator_service.h"
#include "accrue/dist/grpc_credentials.h"
#include "accrue/dist/listener.h"
#include "accrue/dist/wire_messages.h"

namespace accrue {
namespace {

// Of all messages that are being read: more than two hundred workers send at a time, less than a small machine has.
constexpr size_t kMostMemory = size_t{1} << 30;
// For calls that are just being answered.
constexpr std::chrono::seconds kTimeToEnd{1};

void limit(grpc::ServerBuilder& builder) {
    builder.SetMaxReceiveMessageSize(static_cast<int>(kMostMessageBytes));
    builder.SetMaxSendMessageSize(static_cast<int>(kMostMessageBytes));
    builder.SetResourceQuota(grpc::ResourceQuota("accrue").Resize(kMostMemory));
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8 << 10);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 64);
    // Who connects must say something, and go on.
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 300'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    // As often as workers may ask (grpc_link.cpp), with some room.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

}  // namespace

struct GrpcServer::Parts {
    Parts(CoordinatorDesk& desk, Answers& answers, const GrpcServerOptions& options)
        : questions(answers, options.answer_threads, [&desk] { desk.note_change(); }),
          calls(desk),
          joins(options.joins_per_second),
          service(make_coordinator_service(
              {.desk = desk, .questions = questions, .calls = calls, .joins = joins, .refusals = refusals},
              options.terms)) {}

    AskedQuestions questions;
    WaitingCalls calls;
    JoinLimit joins;
    Refusals refusals;
    std::unique_ptr<grpc::Service> service;
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
    std::unique_ptr<grpc::Server> server;
    std::unique_ptr<Listener> listener;
};

GrpcServer::GrpcServer(CoordinatorDesk& desk, Answers& answers, const GrpcServerOptions& options) {
    quiet_grpc();
    const NetworkAddress address = network_address_of(options.address);
    const auto credentials = server_credentials(address, options.safety);
    parts_ = std::make_unique<Parts>(desk, answers, options);
    parts_->listener = std::make_unique<Listener>(address);
    grpc::ServerBuilder builder;
    limit(builder);
    using Experimental = grpc::ServerBuilder::experimental_type;
    parts_->acceptor = Experimental(&builder).AddExternalConnectionAcceptor(
        Experimental::ExternalConnectionType::FROM_FD, credentials);
    builder.RegisterService(parts_->service.get());
    parts_->server = builder.BuildAndStart();
    if (parts_->server == nullptr) {
        throw Error(cat("the coordinator cannot listen at ", text_of(address),
                        ": gRPC gives no reason; GRPC_VERBOSITY=info shows more"));
    }
    parts_->listener->start(
        {.taken =
             [&acceptor = *parts_->acceptor](int connection) {
                 grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
                 taken.fd = connection;
                 acceptor.HandleNewConnection(&taken);
             },
         .too_many = [&refusals = parts_->refusals](
                         const std::string& peer) { refusals.note(peer, "there are too many connections"); }});
    address_ = text_of(parts_->listener->address());
    warning_ = safety_warning(address, options.safety);
}

std::vector<std::string> GrpcServer::take_refusals() {
    return parts_->refusals.take();
}

GrpcServer::~GrpcServer() {
    parts_->listener.reset();
    parts_->calls.end();
    parts_->server->Shutdown(std::chrono::system_clock::now() + kTimeToEnd);
    parts_->server->Wait();
}

}  // namespace accrue
