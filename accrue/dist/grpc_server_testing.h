#pragma once

#include <memory>
#include <string>
#include <vector>

#include <coordinator.grpc.pb.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include "accrue/dist/grpc_link.h"
#include "accrue/dist/grpc_server.h"
#include "accrue/dist/link_testing.h"
#include "accrue/dist/network_address.h"

// For tests of what others send to a server, by mistake or not: it disturbs no worker.
namespace accrue::testing {

inline const JoinTerms kServerTerms{.program_version = "0.1.0", .run = "runs/small", .token = "bread and salt"};

class GrpcServerTest : public ::testing::Test {
protected:
    using Stub = wire::Coordinator::Stub;

    // Anything may be sent with it.
    [[nodiscard]] std::unique_ptr<Stub> stub() const {
        grpc::ChannelArguments arguments;
        arguments.SetMaxSendMessageSize(-1);
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        return wire::Coordinator::NewStub(
            grpc::CreateCustomChannel(server_.address(), grpc::InsecureChannelCredentials(), arguments));
    }
    // Of a worker that is admitted.
    static wire::Caller caller() {
        wire::Caller caller;
        caller.set_program_version(kServerTerms.program_version);
        caller.set_run(kServerTerms.run);
        caller.set_token(kServerTerms.token);
        caller.set_worker("mallory");
        caller.set_call(1);
        return caller;
    }
    // What the server says to it.
    template <class Request, class Reply>
    [[nodiscard]] grpc::Status status_of(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                                         Request request) const {
        if (!request.has_caller()) {
            *request.mutable_caller() = caller();
        }
        grpc::ClientContext context;
        Reply reply;
        return (stub().get()->*method)(&context, request, &reply);
    }
    template <class Request, class Reply>
    void expect_nonsense(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                         const Request& request, const std::string& words) const {
        const grpc::Status status = status_of(method, request);
        EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << words;
        EXPECT_NE(status.error_message().find("worker mallory sends nonsense"), std::string::npos)
            << status.error_message();
        EXPECT_NE(status.error_message().find(words), std::string::npos) << status.error_message();
    }
    void expect_others_are_served() {
        GrpcLink link({.address = server_.address(), .worker = "a", .terms = kServerTerms});
        EXPECT_EQ(link.ask("data", "?"), "a asks for data: ?");
        EXPECT_EQ(link.meet({.worker = "a"}).workers, std::vector<std::string>{"a"});
    }

    EchoAnswers answers_;
    CoordinatorDesk desk_{{.silence_seconds = 60}};
    GrpcServer server_{desk_, answers_, {.terms = kServerTerms}};
    const NetworkAddress address_ = network_address_of(server_.address());
};

}  // namespace accrue::testing
