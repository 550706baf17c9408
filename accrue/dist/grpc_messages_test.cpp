#include <string>

#include <gtest/gtest.h>

#include "accrue/dist/grpc_server_testing.h"

// Messages that are too large, or make no sense, are refused in words.
namespace accrue::testing {
namespace {

using GrpcMessagesTest = GrpcServerTest;

TEST_F(GrpcMessagesTest, AMessageThatIsTooLargeIsRefused) {
    wire::AskRequest request;
    request.set_number(1);
    request.set_question(std::string(size_t{64} << 20, ' '));
    EXPECT_EQ(status_of(&Stub::Ask, request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    expect_others_are_served();
}

TEST_F(GrpcMessagesTest, AHeaderThatIsTooLargeIsRefused) {
    grpc::ClientContext context;
    context.AddMetadata("hello", std::string(size_t{1} << 20, ' '));
    wire::BeatRequest request;
    *request.mutable_caller() = caller();
    wire::BeatReply reply;
    EXPECT_FALSE(stub()->Beat(&context, request, &reply).ok());
    expect_others_are_served();
}

TEST_F(GrpcMessagesTest, NumbersThatMakeNoSenseAreRefused) {
    wire::TaskAfterRequest task;
    task.set_number(-1);
    expect_nonsense(&Stub::TaskAfter, task, "the number of the last task is -1");
    wire::DoneRequest done;
    expect_nonsense(&Stub::Done, done, "the number of the task is 0");
    wire::LeaseRequest lease;
    lease.set_most(-5);
    expect_nonsense(&Stub::Lease, lease, "the number of grains is -5");
    wire::VoteRequest vote;
    vote.set_attempt(-1);
    expect_nonsense(&Stub::Vote, vote, "the attempt is -1");
    wire::MeetRequest meet;
    meet.set_step(-2);
    expect_nonsense(&Stub::Meet, meet, "the step is -2");
    meet.set_step(0);
    *meet.mutable_caller() = caller();
    meet.mutable_caller()->set_roster(-1);
    expect_nonsense(&Stub::Meet, meet, "the roster is -1");
    *lease.mutable_caller() = caller();
    lease.mutable_caller()->set_call(0);
    lease.set_most(1);
    expect_nonsense(&Stub::Lease, lease, "the number of the call is 0");
    expect_nonsense(&Stub::Ask, wire::AskRequest(), "the number of the question is 0");
    expect_others_are_served();
}

TEST_F(GrpcMessagesTest, WindowsThatMakeNoSenseAreRefused) {
    wire::BeginRequest request;
    wire::Ledger& ledger = *request.mutable_mine();
    const auto set = [&](int64_t grains, int64_t tensors) {
        ledger.set_grains(grains);
        ledger.set_tensors(tensors);
    };
    set(-1, 2);
    expect_nonsense(&Stub::Begin, request, "-1 grains");
    set(int64_t{1} << 62, 1);
    expect_nonsense(&Stub::Begin, request, "too large");
    set(1, int64_t{1} << 62);
    expect_nonsense(&Stub::Begin, request, "too large");
    set(5, 2);
    ledger.set_finished("rubbish");
    expect_nonsense(&Stub::Begin, request, "the ledger of a window is damaged");
    const std::vector<std::byte> nothing = GrainLedger(5, 2).to_bytes();
    ledger.set_finished(nothing.data(), nothing.size());
    expect_nonsense(&Stub::Begin, request, "the record of a window is damaged");
    request.set_record(std::string(100'000, '['));
    expect_nonsense(&Stub::Begin, request, "the record of a window is damaged");
    request.set_record(to_json(window_of(6)));
    expect_nonsense(&Stub::Begin, request, "a window of 6 grains is begun with a ledger of 5");
    wire::AgreeRequest agree;
    *agree.mutable_mine() = ledger;
    agree.mutable_mine()->set_grains(4);
    expect_nonsense(&Stub::Agree, agree, "the ledger of a window is damaged");
    expect_others_are_served();
}

TEST_F(GrpcMessagesTest, KeysAndQuestionsThatAreTooLargeAreRefused) {
    wire::SetKeyRequest set;
    set.set_value(std::string((1 << 20) + 1, ' '));
    expect_nonsense(&Stub::SetKey, set, "the value of a key has 1048577 bytes");
    wire::GetKeyRequest get;
    get.set_key(std::string(1025, ' '));
    expect_nonsense(&Stub::GetKey, get, "a key has 1025 bytes");
    wire::AskRequest ask;
    ask.set_number(1);
    ask.set_question(std::string((16 << 20) + 1, ' '));
    expect_nonsense(&Stub::Ask, ask, "a question has 16777217 bytes");
    expect_others_are_served();
}

TEST_F(GrpcMessagesTest, NamesThatCannotBeReadAreRefused) {
    for (const std::string& name : {std::string(), std::string("two\nlines"), std::string(201, 'a')}) {
        wire::BeatRequest request;
        *request.mutable_caller() = caller();
        request.mutable_caller()->set_worker(name);
        const grpc::Status status = status_of(&Stub::Beat, request);
        EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
        EXPECT_EQ(status.error_message().find('\n'), std::string::npos);
    }
}

// Whoever connects could fill the terminal, or the file that it goes to.
TEST_F(GrpcMessagesTest, TextThatIsNoTextIsRefusedWithoutALine) {
    ::testing::internal::CaptureStderr();
    wire::BeatRequest request;
    *request.mutable_caller() = caller();
    request.mutable_caller()->set_run("\xff\xfe");
    EXPECT_FALSE(status_of(&Stub::Beat, request).ok());
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    expect_others_are_served();
}

TEST_F(GrpcMessagesTest, ARecordThatIsNestedDeeplyIsRefused) {
    wire::BeginRequest request;
    request.mutable_mine()->set_grains(5);
    request.mutable_mine()->set_tensors(2);
    const std::vector<std::byte> nothing = GrainLedger(5, 2).to_bytes();
    request.mutable_mine()->set_finished(nothing.data(), nothing.size());
    request.set_record("{\"step\": " + std::string(400'000, '[') + std::string(400'000, ']') + "}");
    expect_nonsense(&Stub::Begin, request, "nested deeper");
    expect_others_are_served();
}

}  // namespace
}  // namespace accrue::testing
