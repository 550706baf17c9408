#include "accrue/dist/wire_messages.h"

#include <algorithm>
#include <utility>

#include <coordinator.pb.h>
#include <google/protobuf/stubs/logging.h>

namespace accrue {
namespace {

constexpr size_t kLongestName = 200;
// Of the records that a window may have: the ledger of all its grains, in one message.
constexpr int64_t kMostLedgerBytes = int64_t{30} << 20;
constexpr int64_t kBytesOfGrain = 24;
constexpr int64_t kBytesOfRecord = 13;
// A few for each tensor.
constexpr int64_t kMostRecordBytes = int64_t{1} << 20;

// However different they are, it takes the same time, which therefore tells nothing about the token.
bool is_same_secret(const std::string& given, const std::string& expected) {
    unsigned difference = given.size() == expected.size() ? 0 : 1;
    for (size_t i = 0; i < given.size(); ++i) {
        const auto other = expected.empty() ? '\0' : expected[i % expected.size()];
        difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other);
    }
    return difference == 0;
}

bool is_fit_name(const std::string& name) {
    return !name.empty() && name.size() <= kLongestName &&
           std::all_of(name.begin(), name.end(), [](unsigned char letter) { return letter >= ' ' && letter != 127; });
}

// Without what would disturb whoever reads it.
std::string readable(const std::string& text) {
    std::string shown = text.substr(0, kLongestName);
    std::replace_if(
        shown.begin(), shown.end(), [](unsigned char letter) { return letter < ' ' || letter == 127; }, '?');
    return shown;
}

void require_ledger_size(int64_t grains, int64_t tensors) {
    if (grains < 0 || tensors < 0) {
        throw Error(cat("a ledger has ", grains, " grains and ", tensors, " tensors"));
    }
    if (tensors > kMostLedgerBytes / kBytesOfRecord ||
        grains > kMostLedgerBytes / (kBytesOfGrain + tensors * kBytesOfRecord)) {
        throw Error(cat("a window of ", grains, " grains of ", tensors,
                        " tensors is too large for several workers: what they say of each grain is more than ",
                        kMostLedgerBytes >> 20, " MiB. Take larger grains, or a smaller window."));
    }
}

}  // namespace

int64_t number_from(int64_t least, int64_t number, const std::string& name) {
    if (number < least) {
        throw Error(cat(name, " is ", number, ", but must be ", least, " or more"));
    }
    return number;
}

void quiet_protobuf() {
    google::protobuf::SetLogHandler(nullptr);
}

std::string why_not_admitted(const wire::Caller& caller, const JoinTerms& terms) {
    const std::string worker = "worker " + readable(caller.worker()) + " may not take part: ";
    if (!is_same_secret(caller.token(), terms.token)) {
        return worker + "it has another join token than the coordinator";
    }
    if (caller.program_version() != terms.program_version) {
        return cat(worker, "its program is ", readable(caller.program_version()), ", the coordinator's is ",
                   terms.program_version, ". All need the same.");
    }
    if (!caller.run().empty() && caller.run() != terms.run) {
        return cat(worker, "it comes for run ", readable(caller.run()), ", but this is the coordinator of run ",
                   terms.run);
    }
    if (!is_fit_name(caller.worker())) {
        return cat(worker, "a name has 1 to ", kLongestName, " letters");
    }
    return "";
}

CallPlace roster_place_of(const wire::Caller& caller) {
    return {.worker = caller.worker(),
            .term = number_from(0, caller.term(), "the term"),
            .roster = number_from(0, caller.roster(), "the roster"),
            .call = 0};
}

CallPlace call_place_of(const wire::Caller& caller) {
    CallPlace place = roster_place_of(caller);
    place.call = number_from(1, caller.call(), "the number of the call");
    return place;
}

void write_message(const GrainLedger& ledger, wire::Ledger& message) {
    require_ledger_size(ledger.grains(), ledger.tensors());
    const std::vector<std::byte> bytes = ledger.to_bytes();
    message.set_grains(ledger.grains());
    message.set_tensors(ledger.tensors());
    message.set_finished(bytes.data(), bytes.size());
}

GrainLedger ledger_of(const wire::Ledger& message) {
    require_ledger_size(message.grains(), message.tensors());
    return GrainLedger::from_bytes(std::as_bytes(std::span(message.finished())), message.grains(), message.tensors());
}

int64_t most_bytes_of(const wire::Ledger& message) {
    return message.grains() * (kBytesOfGrain + message.tensors() * kBytesOfRecord);
}

WindowRecord window_record_of(const std::string& json, const GrainLedger& mine) {
    if (std::ssize(json) > kMostRecordBytes) {
        throw Error(cat("the record of a window has ", json.size(), " bytes, more than ", kMostRecordBytes));
    }
    WindowRecord record = window_record_of(json);
    if (record.window.grains() != mine.grains()) {
        throw Error(cat("a window of ", record.window.grains(), " grains is begun with a ledger of ", mine.grains()));
    }
    return record;
}

void write_message(const Coordinator::Agreed& agreed, wire::AgreeReply& message) {
    write_message(agreed.everyone, *message.mutable_agreed()->mutable_everyone());
    message.mutable_agreed()->set_stops(agreed.stops);
}

Coordinator::Agreed agreed_of(const wire::AgreeReply& message) {
    return {.everyone = ledger_of(message.agreed().everyone()), .stops = message.agreed().stops()};
}

void write_message(const Roster& roster, wire::Roster& message) {
    message.set_term(roster.term);
    message.set_number(roster.number);
    message.set_rank(roster.rank);
    message.mutable_workers()->Assign(roster.workers.begin(), roster.workers.end());
    message.mutable_steps()->Assign(roster.steps.begin(), roster.steps.end());
    message.set_keeps_sums(roster.keeps_sums);
}

Roster roster_of(const wire::Roster& message) {
    Roster roster{.term = message.term(),
                  .number = message.number(),
                  .rank = message.rank(),
                  .workers = {message.workers().begin(), message.workers().end()},
                  .steps = {message.steps().begin(), message.steps().end()},
                  .keeps_sums = message.keeps_sums()};
    if (roster.rank < 0 || roster.rank >= std::ssize(roster.workers) || roster.steps.size() != roster.workers.size()) {
        throw Error(cat("the coordinator says rank ", roster.rank, " of ", roster.workers.size(), " workers, with ",
                        roster.steps.size(), " steps"));
    }
    return roster;
}

void write_message(const ExchangeChecks& checks, wire::VoteRequest& message) {
    message.mutable_given()->Assign(checks.given.begin(), checks.given.end());
    message.mutable_total()->Assign(checks.total.begin(), checks.total.end());
}

ExchangeChecks checks_of(const wire::VoteRequest& message) {
    return {.given = {message.given().begin(), message.given().end()},
            .total = {message.total().begin(), message.total().end()}};
}

void throw_refusal(const wire::Refusal& refusal) {
    switch (refusal.why_case()) {
        case wire::Refusal::kRosterChanged:
            throw RosterChanged(refusal.roster_changed());
        case wire::Refusal::kError:
            throw Error(refusal.error());
        case wire::Refusal::WHY_NOT_SET:
            return;
    }
}

}  // namespace accrue
