#include "accrue/dist/grpc_link.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <coordinator.grpc.pb.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "accrue/base/clock.h"
#include "accrue/dist/grpc_server.h"
#include "accrue/dist/link_testing.h"

namespace accrue::testing {
namespace {

using std::chrono::milliseconds;

// What work() throws.
template <class Thrown = Error>
std::string words_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Thrown& thrown) {
        return thrown.what();
    }
    return "nothing was thrown";
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& each : words) {
        EXPECT_NE(text.find(each), std::string::npos) << each << " is missing in: " << text;
    }
}

class GrpcPlace final : public LinkPlace {
public:
    GrpcPlace(const Coordinator::Options& options, Answers& answers)
        : LinkPlace(options),
          server_(std::make_unique<GrpcServer>(desk(), answers, GrpcServerOptions{.terms = kTestTerms})),
          silence_(static_cast<int64_t>(options.silence_seconds * 1000)) {}

    std::unique_ptr<Link> link(const std::string& worker) override {
        return std::make_unique<GrpcLink>(GrpcLinkOptions{.address = server_->address(),
                                                          .worker = worker,
                                                          .terms = kTestTerms,
                                                          .patience = milliseconds(3000),
                                                          .silence = silence_});
    }
    void end() override { server_.reset(); }

private:
    std::unique_ptr<GrpcServer> server_;
    milliseconds silence_;
};

INSTANTIATE_TEST_SUITE_P(Grpc, LinkTest,
                         ::testing::Values(LinkKind{"grpc",
                                                    [](const Coordinator::Options& options, Answers& answers) {
                                                        return std::make_unique<GrpcPlace>(options, answers);
                                                    }}),
                         ::testing::PrintToStringParamName());

// A server, and links to it that differ in something.
class GrpcLinkTest : public ::testing::Test {
protected:
    void listen(Answers& answers) {
        server_ = std::make_unique<GrpcServer>(desk_, answers, GrpcServerOptions{.terms = kTestTerms});
    }
    void listen() { listen(answers_); }
    [[nodiscard]] GrpcLinkOptions options() const {
        return {.address = server_->address(), .worker = "a", .terms = kTestTerms, .patience = milliseconds(60'000)};
    }
    [[nodiscard]] std::string words_for(const JoinTerms& terms) const {
        GrpcLinkOptions others = options();
        others.terms = terms;
        GrpcLink link(others);
        return words_of([&] { (void)link.ask("data", "?"); });
    }

    EchoAnswers answers_;
    CoordinatorDesk desk_{{.silence_seconds = 60}};
    std::unique_ptr<GrpcServer> server_;
};

TEST_F(GrpcLinkTest, OtherTermsAreRefusedInWords) {
    listen();
    JoinTerms terms = kTestTerms;
    terms.program_version = "0.2.0";
    expect_words(words_for(terms), {"worker a", "its program is 0.2.0", "coordinator's is 0.1.0"});
    terms = kTestTerms;
    terms.run = "runs/large";
    expect_words(words_for(terms), {"worker a", "runs/large", "runs/small"});
    terms = kTestTerms;
    terms.token = "bread and sal";
    expect_words(words_for(terms), {"worker a", "join token"});
    EXPECT_EQ(words_for(kTestTerms), "nothing was thrown");
}

TEST_F(GrpcLinkTest, WhoHasNoTokenLearnsNothingOfTheRun) {
    listen();
    for (const char* const token : {"", "b", "bread and salt, bread and salt"}) {
        const std::string words = words_for({.program_version = "", .run = "", .token = token});
        expect_words(words, {"join token"});
        EXPECT_EQ(words.find(kTestTerms.run), std::string::npos) << words;
        EXPECT_EQ(words.find(kTestTerms.token), std::string::npos) << words;
    }
}

// Patience and how long an answer takes are the subject.
TEST_F(GrpcLinkTest, AnAnswerMayTakeLongerThanAWorkerIsPatient) {
    class SlowAnswers final : public Answers {
    public:
        std::string answer(const std::string& /*worker*/, const std::string& /*subject*/,
                           const std::string& question) override {
            std::this_thread::sleep_for(milliseconds(2500));
            return cat(question, " was asked ", ++asked, " times");
        }
        std::atomic<int> asked = 0;
    } slow;
    listen(slow);
    GrpcLinkOptions impatient = options();
    impatient.patience = milliseconds(2000);
    GrpcLink link(impatient);
    EXPECT_EQ(link.ask("data", "it"), "it was asked 1 times");
}

TEST_F(GrpcLinkTest, QuestionsAreAnsweredAtTheSameTime) {
    class TogetherAnswers final : public Answers {
    public:
        std::string answer(const std::string& worker, const std::string& /*subject*/,
                           const std::string& question) override {
            all_.arrive_and_wait();
            return worker + question;
        }

    private:
        std::barrier<> all_{4};
    } together;
    listen(together);
    GrpcLink link(options());
    std::vector<std::future<std::string>> asked;
    for (int number = 0; number < 4; ++number) {
        asked.push_back(
            std::async(std::launch::async, [&link, number] { return link.ask("data", std::to_string(number)); }));
    }
    for (int number = 0; number < 4; ++number) {
        EXPECT_EQ(asked[static_cast<size_t>(number)].get(), cat("a", number));
    }
}

// A coordinator that answers at the fourth time, and has forgotten the question at the second: it was started again.
class SlowCoordinator final : public wire::Coordinator::Service {
public:
    grpc::Status Ask(grpc::ServerContext* /*context*/, const wire::AskRequest* request,
                     wire::AskReply* reply) override {
        sent_.push_back(request->has_question());
        reply->set_is_known(sent_.size() != 2);
        if (sent_.size() == 4) {
            reply->set_answer("so many");
        }
        return grpc::Status::OK;
    }
    grpc::Status Beat(grpc::ServerContext* /*context*/, const wire::BeatRequest* /*request*/,
                      wire::BeatReply* /*reply*/) override {
        return grpc::Status::OK;
    }
    [[nodiscard]] const std::vector<bool>& sent() const { return sent_; }

private:
    std::vector<bool> sent_;  // was the question itself in each of the calls?
};

// It may have 16 MiB.
TEST(GrpcLinkQuestionTest, AQuestionIsSentUntilItIsKnownAndThenOnlyAskedAfter) {
    SlowCoordinator coordinator;
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&coordinator);
    const auto server = builder.BuildAndStart();
    GrpcLink link({.address = cat("127.0.0.1:", port), .worker = "a", .terms = kTestTerms});
    EXPECT_EQ(link.ask("data", "how many?"), "so many");
    EXPECT_EQ(coordinator.sent(), (std::vector<bool>{true, false, true, false}));
}

TEST_F(GrpcLinkTest, AQuestionThatIsTooLargeIsNotSent) {
    listen();
    GrpcLink link(options());
    expect_words(words_of([&] { (void)link.ask("data", std::string((16U << 20) + 1, ' ')); }), {"data", "16777217"});
}

TEST_F(GrpcLinkTest, ALedgerThatIsTooLargeIsNotSent) {
    listen();
    GrpcLink link(options());
    expect_words(words_of([&] {
                     link.begin({.worker = "a", .term = 1, .roster = 1, .call = 1}, window_of(40'000),
                                GrainLedger(40'000, 100));
                 }),
                 {"40000 grains", "100 tensors", "larger grains"});
}

TEST_F(GrpcLinkTest, WhereNobodyListensTheCoordinatorIsLost) {
    listen();
    GrpcLinkOptions impatient = options();
    impatient.patience = milliseconds(300);
    server_.reset();
    GrpcLink link(impatient);
    const auto start = Clock::now();
    expect_words(words_of<CoordinatorLost>([&] { (void)link.meet({.worker = "a"}); }),
                 {impatient.address, "worker a", "0.3 s"});
    EXPECT_LT(seconds_since(start), 10);
}

TEST_F(GrpcLinkTest, ACoordinatorThatComesBackIsFound) {
    listen();
    GrpcLink link(options());
    const Roster roster = link.meet({.worker = "a"});
    auto task = std::async(std::launch::async, [&] {
        return link.task_after({.worker = "a", .term = roster.term, .roster = roster.number, .call = 1}, 0);
    });
    const std::string address = server_->address();
    server_.reset();
    server_ = std::make_unique<GrpcServer>(desk_, answers_, GrpcServerOptions{.address = address, .terms = kTestTerms});
    (void)desk_.set_task("train");
    EXPECT_EQ(task.get().words, "train");
}

// Of a worker that was started with the roster of an older coordinator.
TEST_F(GrpcLinkTest, ACallFromAnotherTermIsAnsweredWithRosterChanged) {
    listen();
    GrpcLink link(options());
    (void)link.meet({.worker = "a"});
    EXPECT_THROW((void)link.task_after({.worker = "a", .term = 9, .roster = 1, .call = 1}, 0), RosterChanged);
}

TEST_F(GrpcLinkTest, APortThatIsInUseIsNamed) {
    listen();
    expect_words(words_of([&] { GrpcServer(desk_, answers_, {.address = server_->address(), .terms = kTestTerms}); }),
                 {server_->address(), "another program has port", "give another port"});
}

TEST_F(GrpcLinkTest, AnAddressOfAnotherMachineIsNamed) {
    expect_words(words_of([&] {
                     GrpcServer(desk_, answers_, {.address = "192.0.2.1:0", .safety = {.insecure_network = true}});
                 }),
                 {"192.0.2.1", "none of this machine's addresses"});
}

TEST_F(GrpcLinkTest, OtherMachinesNeedCertificatesOrLeave) {
    expect_words(words_of([&] { GrpcServer(desk_, answers_, {.address = "0.0.0.0:0"}); }),
                 {"0.0.0.0:0", "certificates", "insecure_network"});
    expect_words(words_of([&] { GrpcLink({.address = "192.0.2.1:7700", .worker = "a"}); }),
                 {"192.0.2.1:7700", "certificates", "insecure_network"});
    const GrpcServer open(desk_, answers_, {.address = "0.0.0.0:0", .safety = {.insecure_network = true}});
    expect_words(open.warning(), {"warning", "in clear", "join token"});
    listen();
    EXPECT_EQ(server_->warning(), "");
}

TEST_F(GrpcLinkTest, WhatIsNoAddressIsNamed) {
    for (const char* const text : {"", "7700", "host:", "host:x", "host:70000", ":7700", "a:b:7700", "unix:/tmp/x:1"}) {
        expect_words(words_of([&] { GrpcLink({.address = text, .worker = "a"}); }), {cat("'", text, "'"), "host:port"});
    }
}

}  // namespace
}  // namespace accrue::testing
