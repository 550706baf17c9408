#include <cstring>

#include "tests/fuzz/parsers.h"
#include <coordinator.pb.h>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/dist/wire_messages.h"

namespace accrue::fuzz {
namespace {

template <class Message>
Message parsed(std::string_view bytes) {
    Message message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        throw Error("it is no message");
    }
    return message;
}

// With the right checksum behind it, so that more than the checksum is tried.
void seal(wire::Ledger& ledger) {
    std::string& finished = *ledger.mutable_finished();
    const uint64_t checksum = hash64_of(std::as_bytes(std::span(finished)), 0);
    finished.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
}

void read_caller(std::string_view bytes) {
    const auto caller = parsed<wire::Caller>(bytes);
    (void)why_not_admitted(caller, {.program_version = "0.1.0", .run = "runs/1", .token = "secret"});
    (void)roster_place_of(caller);
    (void)call_place_of(caller);
}

void read_begin(std::string_view bytes) {
    auto request = parsed<wire::BeginRequest>(bytes);
    seal(*request.mutable_mine());
    const GrainLedger mine = ledger_of(request.mine());
    (void)mine.missing();
    const WindowRecord record = window_record_of(request.record(), mine);
    (void)record.window.places_of(record.window.grains() - 1);
}

void read_agreed(std::string_view bytes) {
    auto reply = parsed<wire::AgreeReply>(bytes);
    seal(*reply.mutable_agreed()->mutable_everyone());
    const Coordinator::Agreed agreed = agreed_of(reply);
    write_message(agreed, reply);
    (void)agreed_of(reply);
}

void read_roster(std::string_view bytes) {
    const Roster roster = roster_of(parsed<wire::Roster>(bytes));
    wire::Roster again;
    write_message(roster, again);
    (void)roster_of(again);
}

void read_vote(std::string_view bytes) {
    auto request = parsed<wire::VoteRequest>(bytes);
    write_message(checks_of(request), request);
}

void read_refusal(std::string_view bytes) {
    throw_refusal(parsed<wire::Refusal>(bytes));
}

constexpr void (*kReaders[])(std::string_view) = {read_caller, read_begin, read_agreed,
                                                  read_roster, read_vote,  read_refusal};

}  // namespace

// The first byte says as which message the others are read.
void run_wire_message(std::string_view bytes) {
    static const bool is_quiet = (quiet_protobuf(), true);
    if (is_quiet && !bytes.empty()) {
        kReaders[static_cast<unsigned char>(bytes.front()) % std::size(kReaders)](bytes.substr(1));
    }
}

}  // namespace accrue::fuzz
