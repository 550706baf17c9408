#include "accrue/dist/link_testing.h"

namespace accrue::testing {

std::string EchoAnswers::answer(const std::string& worker, const std::string& subject, const std::string& question) {
    if (subject == "error") {
        throw Error(question);
    }
    return cat(worker, " asks for ", subject, ": ", question);
}

const Roster& TestWorker::meet() {
    const MeetRequest request{.worker = name_, .term = roster_.term, .roster = roster_.number, .step = 0};
    roster_ = link_->meet(request);
    return roster_;
}

CallPlace TestWorker::next_place() {
    return {.worker = name_, .term = roster_.term, .roster = roster_.number, .call = ++call_};
}

std::set<int64_t> TestWorker::compute(const WindowRecord& record, GrainLedger& everyone) {
    GrainLedger mine(record.window.grains(), kTensorsOfWindow);
    link_->begin(next_place(), record, mine);
    std::set<int64_t> given;
    while (true) {
        const std::vector<int64_t> grains = link_->lease(next_place(), 2);
        if (grains.empty()) {
            break;
        }
        for (const int64_t grain : grains) {
            mine.grain(grain) = {.finished = true, .loss_sum = 0.5 * static_cast<double>(grain), .counted_tokens = 3};
            mine.record(grain, 1) = {.squares = 2, .largest = 1};
            given.insert(grain);
        }
    }
    everyone = link_->agree(next_place(), mine, false).everyone;
    return given;
}

Verdict TestWorker::vote(int64_t attempt, uint64_t lie) {
    ExchangeChecks checks;
    const auto size = std::ssize(roster_.workers);
    for (int64_t owner = 0; owner < size; ++owner) {
        checks.given.push_back(~uint64_t{0});  // sums go modulo 2^64
        checks.total.push_back(lie - static_cast<uint64_t>(size));
    }
    return link_->vote(next_place(), attempt, checks);
}

WindowRecord window_of(int64_t grains) {
    return {.window = {.first = {}, .samples = grains}, .step = 1, .units = Units({-3, 4}), .rate = 0.1, .beta2 = 0.9};
}

}  // namespace accrue::testing
