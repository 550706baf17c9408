#pragma once

#include <string>

#include "accrue/dist/coordinator.h"
#include "accrue/dist/grpc_options.h"

// Of coordinator.proto.
namespace accrue::wire {
class AgreeReply;
class Caller;
class Ledger;
class Refusal;
class Roster;
class VoteRequest;
}  // namespace accrue::wire

// Between what is sent and what it means. Whatever was received is looked at here, and an Error says what is nonsense in it:
// nobody else has to mind where it comes from.
namespace accrue {

inline constexpr int64_t kMostMessageBytes = int64_t{32} << 20;
inline constexpr int64_t kMostQuestionBytes = int64_t{16} << 20;

// Bytes that are no message are an answer to whoever sent them, not a line on the terminal for each.
void quiet_protobuf();

// Why this caller may not take part; empty = it may.
[[nodiscard]] std::string why_not_admitted(const wire::Caller& caller, const JoinTerms& terms);
// Of a call whose number counts.
[[nodiscard]] CallPlace call_place_of(const wire::Caller& caller);
// Of one whose number does not.
[[nodiscard]] CallPlace roster_place_of(const wire::Caller& caller);

void write_message(const GrainLedger& ledger, wire::Ledger& message);
[[nodiscard]] GrainLedger ledger_of(const wire::Ledger& message);
// How large one of so many grains and tensors may be.
[[nodiscard]] int64_t most_bytes_of(const wire::Ledger& message);
// With which a worker begins a window.
[[nodiscard]] WindowRecord window_record_of(const std::string& json, const GrainLedger& mine);

void write_message(const Coordinator::Agreed& agreed, wire::AgreeReply& message);
[[nodiscard]] Coordinator::Agreed agreed_of(const wire::AgreeReply& message);

void write_message(const Roster& roster, wire::Roster& message);
[[nodiscard]] Roster roster_of(const wire::Roster& message);

void write_message(const ExchangeChecks& checks, wire::VoteRequest& message);
[[nodiscard]] ExchangeChecks checks_of(const wire::VoteRequest& message);

// Throws what the coordinator has thrown; nothing where it has thrown nothing.
void throw_refusal(const wire::Refusal& refusal);

// A number from `least` on; `name` is for the Error.
[[nodiscard]] int64_t number_from(int64_t least, int64_t number, const std::string& name);

}  // namespace accrue
