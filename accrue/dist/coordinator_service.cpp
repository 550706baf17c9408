#include "accrue/dist/coordinator_service.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include <coordinator.grpc.pb.h>

#include "accrue/dist/reply_room.h"
#include "accrue/dist/wire_messages.h"

namespace accrue {
namespace {

// After which a call without an answer is told so, and comes again: no call lies anywhere for long.
constexpr std::chrono::milliseconds kLongestWait{2000};
constexpr std::chrono::milliseconds kNow{0};
constexpr int64_t kMostKeyBytes = 1024;
constexpr int64_t kMostValueBytes = int64_t{1} << 20;
// Of everybody's ledgers that are sent to everybody.
constexpr int64_t kMostLedgersOnTheirWay = int64_t{24} << 20;
// Of a status: it travels in a header, which must be short.
constexpr size_t kLongestStatus = 1000;

grpc::Status status_of(grpc::StatusCode code, const std::string& words) {
    return {code, words.substr(0, kLongestStatus)};
}

// Fills a reply; false: not yet.
using Question = std::function<bool()>;

// A call of gRPC, which it deletes when it is over.
class ServerCall final : public grpc::ServerUnaryReactor, public WaitingCall {
public:
    ServerCall(WaitingCalls& calls, Question question) : calls_(calls), question_(std::move(question)) {}

    bool is_ready() override {
        try {
            return question_();
        } catch (const CoordinatorLost& lost) {
            status_ = status_of(grpc::StatusCode::UNAVAILABLE, lost.what());
        } catch (const std::exception& error) {
            status_ = status_of(grpc::StatusCode::INTERNAL, error.what());
        }
        return true;
    }
    void give_up() override { status_ = {grpc::StatusCode::UNAVAILABLE, "the coordinator takes no call now"}; }
    void finish() override { Finish(status_); }

private:
    void OnCancel() override { calls_.cancel(*this); }
    void OnDone() override { delete this; }

    WaitingCalls& calls_;
    const Question question_;
    grpc::Status status_;
};

// With the callbacks of gRPC, because nearly every call waits for other workers: with its other interface each of those would take a
// thread, and the thread that hears heartbeats might be the one that is missing. Calls come in threads of gRPC (half as many as
// processors, 2 to 16), and none of them waits for more than a lock.
class CoordinatorService final : public wire::Coordinator::CallbackService {
public:
    CoordinatorService(const ServiceParts& parts, JoinTerms terms)
        : desk_(parts.desk),
          questions_(parts.questions),
          calls_(parts.calls),
          joins_(parts.joins),
          refusals_(parts.refusals),
          terms_(std::move(terms)),
          room_of_ledgers_(kMostLedgersOnTheirWay, [&desk = parts.desk] { desk.note_change(); }) {}

private:
    using Reactor = grpc::ServerUnaryReactor;
    using Context = grpc::CallbackServerContext;

    // make_question() looks at the request, and throws an Error where it is nonsense.
    template <class Request, class Reply, class MakeQuestion>
    Reactor* serve(Context* context, const Request& request, Reply& reply, const MakeQuestion& make_question,
                   const std::string& replaces = "");
    template <class Reply>
    static Question with_refusals(Reply& reply, Question question);
    // For good: the log names it.
    Reactor* refuse(Context* context, grpc::StatusCode code, const std::string& words);
    static Reactor* end(Context* context, grpc::StatusCode code, const std::string& words);

    Reactor* Beat(Context* context, const wire::BeatRequest* request, wire::BeatReply* reply) override;
    Reactor* Leave(Context* context, const wire::LeaveRequest* request, wire::LeaveReply* reply) override;
    Reactor* Meet(Context* context, const wire::MeetRequest* request, wire::MeetReply* reply) override;
    Reactor* TaskAfter(Context* context, const wire::TaskAfterRequest* request, wire::TaskAfterReply* reply) override;
    Reactor* Done(Context* context, const wire::DoneRequest* request, wire::DoneReply* reply) override;
    Reactor* Begin(Context* context, const wire::BeginRequest* request, wire::BeginReply* reply) override;
    Reactor* Lease(Context* context, const wire::LeaseRequest* request, wire::LeaseReply* reply) override;
    Reactor* Agree(Context* context, const wire::AgreeRequest* request, wire::AgreeReply* reply) override;
    Reactor* Vote(Context* context, const wire::VoteRequest* request, wire::VoteReply* reply) override;
    Reactor* SetKey(Context* context, const wire::SetKeyRequest* request, wire::SetKeyReply* reply) override;
    Reactor* GetKey(Context* context, const wire::GetKeyRequest* request, wire::GetKeyReply* reply) override;
    Reactor* Ask(Context* context, const wire::AskRequest* request, wire::AskReply* reply) override;

    CoordinatorDesk& desk_;
    AskedQuestions& questions_;
    WaitingCalls& calls_;
    JoinLimit& joins_;
    Refusals& refusals_;
    const JoinTerms terms_;
    ReplyRoom room_of_ledgers_;
};

RosterKey key_of(const wire::Caller& caller, const std::string& key) {
    if (std::ssize(key) > kMostKeyBytes) {
        throw Error(cat("a key has ", key.size(), " bytes, more than ", kMostKeyBytes));
    }
    const CallPlace place = roster_place_of(caller);
    return {.term = place.term, .roster = place.roster, .key = key};
}

// What a worker may be told is its answer; all else is for is_ready().
template <class Reply>
Question CoordinatorService::with_refusals(Reply& reply, Question question) {
    return [&reply, question = std::move(question)] {
        try {
            return question();
        } catch (const CoordinatorLost&) {
            throw;
        } catch (const RosterChanged& changed) {
            reply.mutable_refusal()->set_roster_changed(changed.what());
        } catch (const Error& error) {
            reply.mutable_refusal()->set_error(error.what());
        }
        return true;
    };
}

grpc::ServerUnaryReactor* CoordinatorService::refuse(Context* context, grpc::StatusCode code,
                                                     const std::string& words) {
    refusals_.note(context->peer(), words);
    return end(context, code, words);
}

grpc::ServerUnaryReactor* CoordinatorService::end(Context* context, grpc::StatusCode code, const std::string& words) {
    Reactor* const reactor = context->DefaultReactor();
    reactor->Finish(status_of(code, words));
    return reactor;
}

template <class Request, class Reply, class MakeQuestion>
grpc::ServerUnaryReactor* CoordinatorService::serve(Context* context, const Request& request, Reply& reply,
                                                    const MakeQuestion& make_question, const std::string& replaces) {
    const wire::Caller& caller = request.caller();
    if (const std::string why = why_not_admitted(caller, terms_); !why.empty()) {
        return refuse(context, grpc::StatusCode::PERMISSION_DENIED, why);
    }
    if (!joins_.admits(caller.worker(), seconds_now())) {
        return end(context, grpc::StatusCode::RESOURCE_EXHAUSTED,
                   "many workers join at this moment; this one may come again in a moment");
    }
    try {
        const auto longest =
            std::chrono::milliseconds(std::clamp<int64_t>(caller.wait_milliseconds(), 0, kLongestWait.count()));
        auto call = std::make_unique<ServerCall>(calls_, with_refusals(reply, make_question()));
        call->until = Clock::now() + longest;
        call->replaces = replaces;
        calls_.take(*call);
        return call.release();  // NOLINT: it deletes itself
    } catch (const std::exception& error) {
        return refuse(context, grpc::StatusCode::INVALID_ARGUMENT,
                      cat("worker ", caller.worker(), " sends nonsense: ", error.what()));
    }
}

grpc::ServerUnaryReactor* CoordinatorService::Beat(Context* context, const wire::BeatRequest* request,
                                                   wire::BeatReply* reply) {
    return serve(context, *request, *reply, [&] {
        return [this, worker = request->caller().worker(), reply] {
            desk_.beat(worker);
            reply->set_silence_milliseconds(desk_.silence().count());
            const RosterHealth health = desk_.health();
            reply->set_term(health.term);
            reply->set_roster(health.roster);
            reply->set_lacks_member(health.lacks_member);
            return true;
        };
    });
}

grpc::ServerUnaryReactor* CoordinatorService::Leave(Context* context, const wire::LeaveRequest* request,
                                                    wire::LeaveReply* reply) {
    return serve(context, *request, *reply, [&] {
        return [this, worker = request->caller().worker()] {
            desk_.leave(worker);
            return true;
        };
    });
}

// Of two that wait, the older one would end the roster that the newer one has got: its worker seems to have been started again.
grpc::ServerUnaryReactor* CoordinatorService::Meet(Context* context, const wire::MeetRequest* request,
                                                   wire::MeetReply* reply) {
    const auto make_question = [&] {
        const CallPlace last = roster_place_of(request->caller());
        const MeetRequest asked{.worker = last.worker,
                                .term = last.term,
                                .roster = last.roster,
                                .step = number_from(-1, request->step(), "the step")};
        return [this, asked, reply] {
            const Soon<Roster> roster = desk_.meet(asked, kNow);
            if (roster) {
                write_message(*roster, *reply->mutable_roster());
            }
            return roster.has_value();
        };
    };
    return serve(context, *request, *reply, make_question, "meeting of " + request->caller().worker());
}

grpc::ServerUnaryReactor* CoordinatorService::TaskAfter(Context* context, const wire::TaskAfterRequest* request,
                                                        wire::TaskAfterReply* reply) {
    return serve(context, *request, *reply, [&] {
        const int64_t number = number_from(0, request->number(), "the number of the last task");
        return [this, place = call_place_of(request->caller()), number, reply] {
            const Soon<Task> task = desk_.task_after(place, number, kNow);
            if (task) {
                reply->mutable_task()->set_number(task->number);
                reply->mutable_task()->set_words(task->words);
            }
            return task.has_value();
        };
    });
}

grpc::ServerUnaryReactor* CoordinatorService::Done(Context* context, const wire::DoneRequest* request,
                                                   wire::DoneReply* reply) {
    return serve(context, *request, *reply, [&] {
        const int64_t number = number_from(1, request->number(), "the number of the task");
        return [this, place = call_place_of(request->caller()), number, said = request->said(), reply] {
            const Soon<std::string> answer = desk_.done(place, number, said, kNow);
            if (answer) {
                reply->set_answer(*answer);
            }
            return answer.has_value();
        };
    });
}

grpc::ServerUnaryReactor* CoordinatorService::Begin(Context* context, const wire::BeginRequest* request,
                                                    wire::BeginReply* reply) {
    return serve(context, *request, *reply, [&] {
        GrainLedger mine = ledger_of(request->mine());
        WindowRecord record = window_record_of(request->record(), mine);
        // What is known after the first time need not wait in each of a thousand calls.
        return [this, place = call_place_of(request->caller()), record = std::move(record), mine = std::move(mine),
                reply]() mutable {
            reply->set_has_begun(desk_.begin(place, record, mine, kNow).has_value());
            mine = GrainLedger(0, 0);
            return reply->has_begun();
        };
    });
}

grpc::ServerUnaryReactor* CoordinatorService::Lease(Context* context, const wire::LeaseRequest* request,
                                                    wire::LeaseReply* reply) {
    return serve(context, *request, *reply, [&] {
        const int64_t most = number_from(1, request->most(), "the number of grains");
        return [this, place = call_place_of(request->caller()), most, reply] {
            const std::vector<int64_t> grains = desk_.lease(place, most);
            reply->mutable_grains()->Assign(grains.begin(), grains.end());
            return true;
        };
    });
}

grpc::ServerUnaryReactor* CoordinatorService::Agree(Context* context, const wire::AgreeRequest* request,
                                                    wire::AgreeReply* reply) {
    return serve(context, *request, *reply, [&] {
        const CoordinatorDesk::Wish wish{.stop = request->wishes_to_stop()};
        return [this, place = call_place_of(request->caller()), mine = std::optional(ledger_of(request->mine())),
                bytes = most_bytes_of(request->mine()), wish, reply, room = std::shared_ptr<const void>()]() mutable {
            if (mine) {
                const bool is_agreed = desk_.agree(place, *mine, wish, kNow).has_value();
                mine.reset();  // it is known from the first time on
                if (!is_agreed) {
                    return false;
                }
            }
            room = room_of_ledgers_.take(bytes);
            const Soon<accrue::Coordinator::Agreed> agreed =
                room ? desk_.agree(place, GrainLedger(0, 0), wish, kNow) : std::nullopt;
            if (!agreed) {
                room.reset();
                return false;
            }
            write_message(*agreed, *reply);
            return true;
        };
    });
}

grpc::ServerUnaryReactor* CoordinatorService::Vote(Context* context, const wire::VoteRequest* request,
                                                   wire::VoteReply* reply) {
    return serve(context, *request, *reply, [&] {
        const int64_t attempt = number_from(0, request->attempt(), "the attempt");
        return [this, place = call_place_of(request->caller()), attempt, checks = checks_of(*request), reply] {
            const Soon<Verdict> verdict = desk_.vote(place, attempt, checks, kNow);
            if (verdict) {
                reply->mutable_verdict()->set_commits(verdict->commits);
                reply->mutable_verdict()->set_fault(verdict->fault);
            }
            return verdict.has_value();
        };
    });
}

grpc::ServerUnaryReactor* CoordinatorService::SetKey(Context* context, const wire::SetKeyRequest* request,
                                                     wire::SetKeyReply* reply) {
    return serve(context, *request, *reply, [&] {
        if (std::ssize(request->value()) > kMostValueBytes) {
            throw Error(cat("the value of a key has ", request->value().size(), " bytes, more than ", kMostValueBytes));
        }
        return [this, key = key_of(request->caller(), request->key()), value = request->value()] {
            desk_.set_key(key, value);
            return true;
        };
    });
}

grpc::ServerUnaryReactor* CoordinatorService::GetKey(Context* context, const wire::GetKeyRequest* request,
                                                     wire::GetKeyReply* reply) {
    return serve(context, *request, *reply, [&] {
        return [this, key = key_of(request->caller(), request->key()), reply] {
            const Soon<std::string> value = desk_.value_of_key(key, kNow);
            if (value) {
                reply->set_value(*value);
            }
            return value.has_value();
        };
    });
}

// A worker of another term got its settings from another start of the leader, which may have led something else.
grpc::ServerUnaryReactor* CoordinatorService::Ask(Context* context, const wire::AskRequest* request,
                                                  wire::AskReply* reply) {
    if (const int64_t term = request->caller().term(); term > 0 && term != desk_.term()) {
        return serve(context, *request, *reply, [&]() -> Question {
            return [term]() -> bool {
                throw RosterChanged(cat("the worker comes from term ", term, ", which has ended"));
            };
        });
    }
    return serve(context, *request, *reply, [&] {
        const AskedQuestions::Place place{.worker = request->caller().worker(),
                                          .link = request->link(),
                                          .number = number_from(1, request->number(), "the number of the question")};
        if (std::ssize(request->question()) > kMostQuestionBytes) {
            throw Error(cat("a question has ", request->question().size(), " bytes, more than ", kMostQuestionBytes));
        }
        AskedQuestions::Place newest = place;
        newest.number = request->newest();
        questions_.forget_all_but({request->open().begin(), request->open().end()}, newest);
        if (request->has_question()) {
            questions_.ask(place, request->subject(), request->question());
        }
        reply->set_is_known(questions_.knows(place));
        return [this, place, reply] {
            const Soon<std::string> answer = reply->is_known() ? questions_.answer(place) : std::nullopt;
            if (answer) {
                reply->set_answer(*answer);
            }
            return answer || !reply->is_known();
        };
    });
}

}  // namespace

std::unique_ptr<grpc::Service> make_coordinator_service(const ServiceParts& parts, const JoinTerms& terms) {
    return std::make_unique<CoordinatorService>(parts, terms);
}

}  // namespace accrue
