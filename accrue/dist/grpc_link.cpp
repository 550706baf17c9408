#include "accrue/dist/grpc_link.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

#include <coordinator.grpc.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include "accrue/base/clock.h"
#include "accrue/dist/grpc_credentials.h"
#include "accrue/dist/heartbeat.h"
#include "accrue/dist/wire_messages.h"

namespace accrue {
namespace {

using std::chrono::milliseconds;

// How long the coordinator may think about a call that has no answer yet.
constexpr milliseconds kLongestThought{2000};
// For messages to get there and back: the largest in a slow network.
constexpr milliseconds kLongestWay{20'000};
constexpr milliseconds kPauseAfterAFailure{50};
constexpr milliseconds kPatienceOfLeaving{5000};
// Of signs of life, whatever the coordinator says.
constexpr milliseconds kLongestInterval{60'000};
constexpr milliseconds kShortestCall{200};

template <class Request, class Reply>
using Method = grpc::Status (wire::Coordinator::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

grpc::ChannelArguments channel_arguments() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(static_cast<int>(kMostMessageBytes));
    arguments.SetMaxSendMessageSize(static_cast<int>(kMostMessageBytes));
    arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 8 << 10);
    // A coordinator that is gone without a word is noticed, and one that comes back is found, within seconds.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);  // also how long a connection may take
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
    // Repeating is for this file alone; each link has its own connection; no proxy stands between machines that compute together.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return arguments;
}

std::unique_ptr<wire::Coordinator::Stub> stub_for(const GrpcLinkOptions& options) {
    quiet_grpc();
    const NetworkAddress address = network_address_of(options.address);
    return wire::Coordinator::NewStub(grpc::CreateCustomChannel(
        "dns:///" + text_of(address), worker_credentials(address, options.safety), channel_arguments()));
}

uint64_t any_number() {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
}

}  // namespace

// The connection, and what all calls have in common.
struct GrpcLink::Wire {
    explicit Wire(const GrpcLinkOptions& link_options)
        : options(link_options),
          longest_thought(std::clamp(options.patience / 4, milliseconds(1), kLongestThought)),
          stub(stub_for(options)),
          heartbeat([this] { return beat(); }) {}

    [[nodiscard]] wire::Caller caller_at(const CallPlace& place) const;
    [[nodiscard]] wire::Caller caller_in_my_roster() const;
    // Says that the worker is alive, and when it should say so again.
    [[nodiscard]] milliseconds beat();

    // Until there is a reply: an answer, or that there is none yet.
    template <class Request, class Reply>
    [[nodiscard]] Reply reply_to(Method<Request, Reply> method, const Request& request) {
        return reply_to(method, request, options.patience);
    }
    template <class Request, class Reply>
    [[nodiscard]] Reply reply_to(Method<Request, Reply> method, const Request& request, milliseconds patience);
    // Until there is an answer.
    template <class Request, class Reply, class HasAnswer>
    [[nodiscard]] Reply answer_to(Method<Request, Reply> method, const Request& request, const HasAnswer& has_answer);
    template <class Request, class Reply>
    [[nodiscard]] grpc::Status call(Method<Request, Reply> method, const Request& request, Reply& reply,
                                    milliseconds limit);
    void throw_what_lasts(const grpc::Status& status) const;
    void throw_what_certificates_say(const std::string& words) const;

    const GrpcLinkOptions options;
    const milliseconds longest_thought;
    const std::unique_ptr<wire::Coordinator::Stub> stub;
    const uint64_t link = any_number();
    std::atomic<milliseconds> beat_interval = std::max(options.silence / 5, milliseconds(1));
    std::atomic<bool> has_left = false;

    mutable std::mutex mutex;
    CallPlace met;  // the roster that it met last
    int64_t newest_question = 0;
    std::set<int64_t> open_questions;

    RosterWatch watch;
    Heartbeat heartbeat;  // after all that it uses
};

wire::Caller GrpcLink::Wire::caller_at(const CallPlace& place) const {
    wire::Caller caller;
    caller.set_program_version(options.terms.program_version);
    caller.set_run(options.terms.run);
    caller.set_token(options.terms.token);
    caller.set_worker(options.worker);
    caller.set_term(place.term);
    caller.set_roster(place.roster);
    caller.set_call(place.call);
    caller.set_wait_milliseconds(longest_thought.count());
    return caller;
}

wire::Caller GrpcLink::Wire::caller_in_my_roster() const {
    const std::lock_guard lock(mutex);
    return caller_at(met);
}

template <class Request, class Reply>
grpc::Status GrpcLink::Wire::call(Method<Request, Reply> method, const Request& request, Reply& reply,
                                  milliseconds limit) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_from_millis(limit.count(), GPR_TIMESPAN));
    return (stub.get()->*method)(&context, request, &reply);
}

// gRPC has no code for it. Where its words are others, it is noticed when patience ends.
void GrpcLink::Wire::throw_what_certificates_say(const std::string& words) const {
    if (words.find("certificate verify failed") != std::string::npos ||
        words.find("is not in peer certificate") != std::string::npos) {
        throw Error(
            cat("worker ", options.worker, " does not believe that ", options.address,
                " is its coordinator: both need a ca.pem of the same authority, and the coordinator a certificate for "
                "the host that workers call (",
                words, ")"));
    }
}

// What repeating the call would not change.
void GrpcLink::Wire::throw_what_lasts(const grpc::Status& status) const {
    switch (status.error_code()) {
        case grpc::StatusCode::PERMISSION_DENIED:
        case grpc::StatusCode::INVALID_ARGUMENT:
            throw Error(status.error_message());
        case grpc::StatusCode::RESOURCE_EXHAUSTED:
            if (status.error_message().find("larger than max") == std::string::npos) {
                return;
            }
            throw Error(cat("a message between worker ", options.worker,
                            " and its coordinator is too large: ", status.error_message()));
        case grpc::StatusCode::UNIMPLEMENTED:
            throw Error(cat("what listens at ", options.address, " is no coordinator, or that of another version"));
        case grpc::StatusCode::UNAVAILABLE:
            throw_what_certificates_say(status.error_message());
            return;
        default:
            return;
    }
}

template <class Request, class Reply>
Reply GrpcLink::Wire::reply_to(Method<Request, Reply> method, const Request& request, milliseconds patience) {
    const Clock::time_point until = Clock::now() + patience;
    while (true) {
        if (has_left && !std::is_same_v<Request, wire::LeaveRequest>) {
            throw CoordinatorLost(cat("worker ", options.worker, " has left the run"));
        }
        const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
        Reply reply;
        const grpc::Status status =
            call(method, request, reply, std::min(left, std::max(milliseconds(1), longest_thought + kLongestWay)));
        if (status.ok()) {
            throw_refusal(reply.refusal());
            return reply;
        }
        throw_what_lasts(status);
        if (Clock::now() + kPauseAfterAFailure >= until) {
            throw CoordinatorLost(
                cat("the coordinator at ", options.address, " has not answered worker ", options.worker, " for ",
                    std::chrono::duration<double>(patience).count(), " s (", status.error_message(),
                    "). Is it running, is the address right, and do both sides have certificates of one "
                    "authority, or none?"));
        }
        std::this_thread::sleep_for(kPauseAfterAFailure);
    }
}

template <class Request, class Reply, class HasAnswer>
Reply GrpcLink::Wire::answer_to(Method<Request, Reply> method, const Request& request, const HasAnswer& has_answer) {
    while (true) {
        Reply reply = reply_to(method, request);
        if (has_answer(reply)) {
            return reply;
        }
    }
}

// Once: the next one comes soon. How soon, the coordinator knows best.
milliseconds GrpcLink::Wire::beat() {
    wire::BeatRequest request;
    *request.mutable_caller() = caller_in_my_roster();
    wire::BeatReply reply;
    if (call(&wire::Coordinator::Stub::Beat, request, reply, std::max(beat_interval.load(), kShortestCall)).ok() &&
        reply.silence_milliseconds() > 0) {
        beat_interval = std::clamp(milliseconds(reply.silence_milliseconds()) / 5, milliseconds(1), kLongestInterval);
        watch.hear({.term = reply.term(), .roster = reply.roster(), .lacks_member = reply.lacks_member()});
    }
    return beat_interval;
}

// A question while it is asked: the link knows which answers it still lacks.
class GrpcLink::OpenQuestion {
public:
    explicit OpenQuestion(Wire& wire) : wire_(wire) {
        const std::lock_guard lock(wire_.mutex);
        number_ = ++wire_.newest_question;
        wire_.open_questions.insert(number_);
    }
    ~OpenQuestion() {
        const std::lock_guard lock(wire_.mutex);
        wire_.open_questions.erase(number_);
    }
    OpenQuestion(const OpenQuestion&) = delete;
    OpenQuestion& operator=(const OpenQuestion&) = delete;

    [[nodiscard]] int64_t number() const { return number_; }
    // Which questions are open, so that the coordinator forgets the answers of all others.
    void say_what_is_open(wire::AskRequest& request) const {
        const std::lock_guard lock(wire_.mutex);
        request.set_newest(wire_.newest_question);
        request.mutable_open()->Assign(wire_.open_questions.begin(), wire_.open_questions.end());
    }

private:
    Wire& wire_;
    int64_t number_ = 0;
};

GrpcLink::GrpcLink(const GrpcLinkOptions& options) : wire_(std::make_unique<Wire>(options)) {}

GrpcLink::~GrpcLink() = default;

Roster GrpcLink::meet(const MeetRequest& asked) {
    wire::MeetRequest request;
    *request.mutable_caller() = wire_->caller_at({.worker = asked.worker, .term = asked.term, .roster = asked.roster});
    request.set_step(asked.step);
    const auto reply = wire_->answer_to(&wire::Coordinator::Stub::Meet, request,
                                        [](const wire::MeetReply& given) { return given.has_roster(); });
    Roster roster = roster_of(reply.roster());
    wire_->watch.enter(roster.term, roster.number);
    const std::lock_guard lock(wire_->mutex);
    wire_->met = {.worker = asked.worker, .term = roster.term, .roster = roster.number};
    return roster;
}

void GrpcLink::tell_when_roster_ends(RosterWatch::Told told) {
    wire_->watch.tell(std::move(told));
}

Task GrpcLink::task_after(const CallPlace& place, int64_t number) {
    wire::TaskAfterRequest request;
    *request.mutable_caller() = wire_->caller_at(place);
    request.set_number(number);
    const auto reply = wire_->answer_to(&wire::Coordinator::Stub::TaskAfter, request,
                                        [](const wire::TaskAfterReply& given) { return given.has_task(); });
    return {.number = reply.task().number(), .words = reply.task().words()};
}

std::string GrpcLink::done(const CallPlace& place, int64_t number, const std::string& said) {
    wire::DoneRequest request;
    *request.mutable_caller() = wire_->caller_at(place);
    request.set_number(number);
    request.set_said(said);
    const auto reply = wire_->answer_to(&wire::Coordinator::Stub::Done, request,
                                        [](const wire::DoneReply& given) { return given.has_answer(); });
    return reply.answer();
}

void GrpcLink::begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine) {
    wire::BeginRequest request;
    *request.mutable_caller() = wire_->caller_at(place);
    request.set_record(to_json(record));
    write_message(mine, *request.mutable_mine());
    (void)wire_->answer_to(&wire::Coordinator::Stub::Begin, request,
                           [](const wire::BeginReply& given) { return given.has_begun(); });
}

std::vector<int64_t> GrpcLink::lease(const CallPlace& place, int64_t most) {
    wire::LeaseRequest request;
    *request.mutable_caller() = wire_->caller_at(place);
    request.set_most(most);
    const auto reply = wire_->reply_to(&wire::Coordinator::Stub::Lease, request);
    return {reply.grains().begin(), reply.grains().end()};
}

Coordinator::Agreed GrpcLink::agree(const CallPlace& place, const GrainLedger& mine, bool wishes_to_stop) {
    wire::AgreeRequest request;
    *request.mutable_caller() = wire_->caller_at(place);
    write_message(mine, *request.mutable_mine());
    request.set_wishes_to_stop(wishes_to_stop);
    return agreed_of(wire_->answer_to(&wire::Coordinator::Stub::Agree, request,
                                      [](const wire::AgreeReply& given) { return given.has_agreed(); }));
}

Verdict GrpcLink::vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks) {
    wire::VoteRequest request;
    *request.mutable_caller() = wire_->caller_at(place);
    request.set_attempt(attempt);
    write_message(checks, request);
    const auto reply = wire_->answer_to(&wire::Coordinator::Stub::Vote, request,
                                        [](const wire::VoteReply& given) { return given.has_verdict(); });
    return {.commits = reply.verdict().commits(), .fault = reply.verdict().fault()};
}

// A coordinator that is gone needs no goodbye: nobody waits long for it. After it nothing is said any more, which would be heard
// as if the worker had come back.
void GrpcLink::leave() {
    wire_->has_left = true;
    wire_->heartbeat.end();
    wire::LeaveRequest request;
    *request.mutable_caller() = wire_->caller_in_my_roster();
    (void)wire_->reply_to(&wire::Coordinator::Stub::Leave, request,
                          std::min(wire_->options.patience, kPatienceOfLeaving));
}

// The question is sent until the coordinator has it, and then only asked after.
std::string GrpcLink::ask(const std::string& subject, const std::string& question) {
    if (std::ssize(question) > kMostQuestionBytes) {
        throw Error(
            cat("a question about ", subject, " has ", question.size(), " bytes, more than ", kMostQuestionBytes));
    }
    wire::AskRequest request;
    *request.mutable_caller() = wire_->caller_in_my_roster();
    request.set_link(wire_->link);
    request.set_subject(subject);
    const OpenQuestion open(*wire_);
    request.set_number(open.number());
    bool is_known = false;
    while (true) {
        if (is_known) {
            request.clear_question();
        } else {
            request.set_question(question);
        }
        open.say_what_is_open(request);
        auto reply = wire_->reply_to(&wire::Coordinator::Stub::Ask, request);
        if (reply.has_answer()) {
            return std::move(*reply.mutable_answer());
        }
        is_known = reply.is_known();
    }
}

void GrpcLink::set(const std::string& key, const std::string& value) {
    wire::SetKeyRequest request;
    *request.mutable_caller() = wire_->caller_in_my_roster();
    request.set_key(key);
    request.set_value(value);
    (void)wire_->reply_to(&wire::Coordinator::Stub::SetKey, request);
}

std::string GrpcLink::get(const std::string& key, std::chrono::milliseconds limit) {
    const Clock::time_point until = Clock::now() + limit;
    wire::GetKeyRequest request;
    *request.mutable_caller() = wire_->caller_in_my_roster();
    request.set_key(key);
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
        request.mutable_caller()->set_wait_milliseconds(
            std::clamp(left, milliseconds(0), wire_->longest_thought).count());
        auto reply = wire_->reply_to(&wire::Coordinator::Stub::GetKey, request);
        if (reply.has_value()) {
            return std::move(*reply.mutable_value());
        }
        if (Clock::now() >= until) {
            throw RosterChanged(cat("key ", key, " did not come within ", limit.count(), " ms"));
        }
    }
}

}  // namespace accrue
