#include "accrue/dist/grpc_server.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accrue/base/clock.h"
#include "accrue/base/random.h"
#include "accrue/dist/grpc_server_testing.h"

// What others send to a server, by mistake or not, disturbs no worker.
namespace accrue::testing {
namespace {

// A connection that knows nothing of what is spoken here.
class RawConnection {
public:
    explicit RawConnection(const NetworkAddress& address) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(static_cast<uint16_t>(address.port));
        inet_pton(AF_INET, address.host.c_str(), &where.sin_addr);
        EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&where), sizeof(where)), 0);
    }
    ~RawConnection() { close(socket_); }
    RawConnection(const RawConnection&) = delete;
    RawConnection& operator=(const RawConnection&) = delete;

    // As much of it as is taken.
    void send(const std::string& bytes) {
        for (size_t sent = 0; sent < bytes.size();) {
            const ssize_t now = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            if (now <= 0) {
                return;
            }
            sent += static_cast<size_t>(now);
        }
    }

    // The server speaks first; whom it turns away hears nothing.
    [[nodiscard]] bool is_taken() const {
        const timeval limit = {.tv_sec = 60, .tv_usec = 0};
        setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        char first = 0;
        return recv(socket_, &first, sizeof(first), MSG_PEEK) == sizeof(first);
    }

private:
    int socket_;
};

TEST_F(GrpcServerTest, BytesThatMeanNothingDisturbNobody) {
    std::string bytes(size_t{1} << 20, '\0');
    uint64_t number = 1;
    for (char& byte : bytes) {
        byte = static_cast<char>(number = mix(number, 1));
    }
    const std::string http2_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (const std::string& start : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), http2_preface}) {
        RawConnection connection(address_);
        connection.send(start + bytes);
        expect_others_are_served();
    }
}

// For a while.
class FileLimit {
public:
    explicit FileLimit(rlim_t most) {
        getrlimit(RLIMIT_NOFILE, &before_);
        const struct rlimit now = {.rlim_cur = std::min(most, before_.rlim_max), .rlim_max = before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &now);
    }
    ~FileLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
    FileLimit(const FileLimit&) = delete;
    FileLimit& operator=(const FileLimit&) = delete;

    // So many files may be open now.
    [[nodiscard]] static int64_t now() {
        struct rlimit limit {};
        getrlimit(RLIMIT_NOFILE, &limit);
        return static_cast<int64_t>(limit.rlim_cur);
    }

private:
    struct rlimit before_ {};
};

// Both ends of each lie in this process, whose files are limited.
TEST_F(GrpcServerTest, TenThousandConnectionsThatSayNothingDisturbNobody) {
    const FileLimit limit(32'768);
    CoordinatorDesk desk({.silence_seconds = 60});
    const GrpcServer server(desk, answers_, {.terms = kServerTerms});
    const int64_t count = std::min<int64_t>(10'000, FileLimit::now() * 4 / 10);
    std::vector<std::unique_ptr<RawConnection>> silent;
    for (int64_t number = 0; number < count; ++number) {
        silent.push_back(std::make_unique<RawConnection>(network_address_of(server.address())));
    }
    GrpcLink link({.address = server.address(), .worker = "a", .terms = kServerTerms});
    EXPECT_EQ(link.ask("data", "?"), "a asks for data: ?") << count << " connections";
}

// A worker that comes meanwhile waits, and is heard when some of them are gone.
TEST_F(GrpcServerTest, MoreConnectionsThanThereCanBeKeepNobodyOutForGood) {
    const FileLimit limit(600);
    CoordinatorDesk desk({.silence_seconds = 60});
    GrpcServer server(desk, answers_, {.terms = kServerTerms});
    std::vector<std::unique_ptr<RawConnection>> silent;
    do {  // half of the open files are ours
        silent.push_back(std::make_unique<RawConnection>(network_address_of(server.address())));
    } while (silent.back()->is_taken() && std::ssize(silent) < 300);
    EXPECT_GT(std::ssize(silent), 200);
    std::vector<std::string> refused;
    for (const auto start = Clock::now(); refused.empty() && seconds_since(start) < 60;) {
        refused = server.take_refusals();
    }
    ASSERT_FALSE(refused.empty());
    EXPECT_EQ(refused.front(), "refused a call from 127.0.0.1: there are too many connections");
    silent.resize(silent.size() / 2);
    GrpcLink link({.address = server.address(), .worker = "a", .terms = kServerTerms});
    EXPECT_EQ(link.ask("data", "?"), "a asks for data: ?");
}

TEST_F(GrpcServerTest, WhoIsRefusedIsNamed) {
    wire::BeatRequest request;
    *request.mutable_caller() = caller();
    request.mutable_caller()->set_token("another");
    EXPECT_EQ(status_of(&Stub::Beat, request).error_code(), grpc::StatusCode::PERMISSION_DENIED);
    const std::vector<std::string> lines = server_.take_refusals();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(lines[0].find("refused a call from 127.0.0.1: worker mallory may not take part"), 0U) << lines[0];
    EXPECT_EQ(lines[0].find(kServerTerms.token), std::string::npos);
}

TEST_F(GrpcServerTest, AStormOfWorkersIsLetInOneAfterAnother) {
    CoordinatorDesk desk({.silence_seconds = 60});
    const GrpcServer server(desk, answers_, {.terms = kServerTerms, .joins_per_second = 5});
    const auto stub =
        wire::Coordinator::NewStub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
    int64_t told_to_wait = 0;
    for (int number = 0; number < 100; ++number) {
        wire::BeatRequest request;
        *request.mutable_caller() = caller();
        request.mutable_caller()->set_worker("mallory" + std::to_string(number));
        grpc::ClientContext context;
        wire::BeatReply reply;
        told_to_wait += stub->Beat(&context, request, &reply).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    }
    EXPECT_GT(told_to_wait, 0);
    GrpcLink link({.address = server.address(), .worker = "a", .terms = kServerTerms});
    EXPECT_EQ(link.ask("data", "?"), "a asks for data: ?") << "it comes again until it is let in";
}

// Of one piece that lies in memory once.
TEST_F(GrpcServerTest, AMessageOfAGibibyteIsRefused) {
    const std::vector<grpc::Slice> pieces(1024, grpc::Slice(std::string(size_t{1} << 20, ' ')));
    grpc::ByteBuffer message(pieces.data(), pieces.size());
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    grpc::GenericStub stub(grpc::CreateCustomChannel(server_.address(), grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, "/accrue.wire.Coordinator/Ask", message, &queue);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool is_ok = false;
    EXPECT_TRUE(queue.Next(&tag, &is_ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    expect_others_are_served();
}

// What somebody has recorded of a worker's vote, and sends again.
TEST_F(GrpcServerTest, AVoteThatIsReplayedCountsNoSecondTime) {
    TestWorker worker("a", std::make_unique<GrpcLink>(
                               GrpcLinkOptions{.address = server_.address(), .worker = "a", .terms = kServerTerms}));
    (void)worker.meet();
    const auto compute = [&](int64_t step) {
        WindowRecord record = window_of(3);
        record.step = step;
        GrainLedger everyone(3, kTensorsOfWindow);
        EXPECT_EQ(worker.compute(record, everyone).size(), 3U);
    };
    compute(1);
    const CallPlace place = worker.next_place();
    const auto replay = [&](uint64_t given) {
        wire::VoteRequest vote;
        *vote.mutable_caller() = caller();
        vote.mutable_caller()->set_worker("a");
        vote.mutable_caller()->set_term(place.term);
        vote.mutable_caller()->set_roster(place.roster);
        vote.mutable_caller()->set_call(place.call);
        vote.add_given(given);
        vote.add_total(given);
        grpc::ClientContext context;
        wire::VoteReply reply;
        EXPECT_TRUE(stub()->Vote(&context, vote, &reply).ok());
        return reply;
    };
    EXPECT_TRUE(replay(7).verdict().commits());
    EXPECT_TRUE(replay(7).verdict().commits()) << "its answer may have been lost";
    compute(2);
    EXPECT_TRUE(replay(7).refusal().has_roster_changed()) << "it comes late";
    EXPECT_TRUE(worker.vote(0).commits);
}

// A copy that came late would end the roster that the newer one has got.
TEST_F(GrpcServerTest, OfTwoMeetingsOfAWorkerOnlyTheNewerOneWaits) {
    CoordinatorDesk desk({.silence_seconds = 60, .least_workers = 2});
    const GrpcServer server(desk, answers_, {.terms = kServerTerms});
    const auto stub =
        wire::Coordinator::NewStub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
    wire::MeetRequest request;
    *request.mutable_caller() = caller();
    request.mutable_caller()->set_wait_milliseconds(2000);
    const auto has_roster = [&] {
        grpc::ClientContext context;
        wire::MeetReply reply;
        EXPECT_TRUE(stub->Meet(&context, request, &reply).ok());
        return reply.has_roster();
    };
    std::vector<std::future<bool>> copies;
    copies.push_back(std::async(std::launch::async, has_roster));
    copies.push_back(std::async(std::launch::async, has_roster));
    const auto is_over = [&](size_t number) {
        return copies[number].wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    while (!is_over(0) && !is_over(1)) {
        std::this_thread::yield();
    }
    const size_t older = is_over(0) ? 0 : 1;
    EXPECT_FALSE(copies[older].get());
    EXPECT_TRUE(desk.meet({.worker = "b"}, std::chrono::milliseconds(0)));
    EXPECT_TRUE(copies[1 - older].get());
}

// However long a worker would wait: no call lies anywhere for long. How long that is, is the subject.
TEST_F(GrpcServerTest, ACallWithoutAnAnswerIsToldSoWithinSeconds) {
    CoordinatorDesk desk({.silence_seconds = 600, .least_workers = 2});
    const GrpcServer server(desk, answers_, {.terms = kServerTerms});
    const auto stub =
        wire::Coordinator::NewStub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
    wire::MeetRequest request;
    *request.mutable_caller() = caller();
    request.mutable_caller()->set_wait_milliseconds(3'600'000);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    wire::MeetReply reply;
    EXPECT_TRUE(stub->Meet(&context, request, &reply).ok());
    EXPECT_FALSE(reply.has_roster());
}

// Answers when it may, and counts.
class HeldAnswers final : public Answers {
public:
    std::string answer(const std::string& /*worker*/, const std::string& subject,
                       const std::string& /*question*/) override {
        begun.count_down();
        may_answer.wait();
        ++times[subject];
        return subject;
    }
    std::latch begun{2};
    std::latch may_answer{1};
    std::map<std::string, int> times;  // by the one thread that answers
};

// Whose answer is lost on the way is asked again, perhaps while the answer is still being made. One thread answers, in order:
// when the second question has its answer, the first one had all that it gets.
TEST_F(GrpcServerTest, AQuestionThatIsAskedAgainWhileItIsAnsweredIsAnsweredOnce) {
    HeldAnswers held;
    const GrpcServer server(desk_, held, {.terms = kServerTerms, .answer_threads = 1});
    const auto stub =
        wire::Coordinator::NewStub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
    const auto ask = [&](int64_t number, const std::string& subject, int64_t wait) {
        wire::AskRequest request;
        *request.mutable_caller() = caller();
        request.mutable_caller()->set_wait_milliseconds(wait);
        request.set_link(7);
        request.set_number(number);
        request.set_subject(subject);
        request.set_question("?");
        grpc::ClientContext context;
        wire::AskReply reply;
        EXPECT_TRUE(stub->Ask(&context, request, &reply).ok());
        return reply;
    };
    for (int time = 0; time < 3; ++time) {
        const wire::AskReply reply = ask(1, "first", 0);
        EXPECT_TRUE(reply.is_known());
        EXPECT_FALSE(reply.has_answer());
        if (time == 0) {
            held.begun.count_down();
            held.begun.wait();  // it is being answered
        }
    }
    held.may_answer.count_down();
    wire::AskReply second;
    while (!second.has_answer()) {
        second = ask(2, "second", 2000);
    }
    EXPECT_EQ(ask(1, "first", 2000).answer(), "first");
    EXPECT_EQ(held.times, (std::map<std::string, int>{{"first", 1}, {"second", 1}}));
}

}  // namespace
}  // namespace accrue::testing
