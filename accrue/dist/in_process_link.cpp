#include "accrue/dist/in_process_link.h"

#include <utility>

namespace accrue {
namespace {

// Of one question; then it is asked again.
constexpr std::chrono::seconds kPatienceAQuestion{2};

template <class Ask>
auto ask_until_answered(const Ask& ask) {
    while (true) {
        if (auto answer = ask(kPatienceAQuestion)) {
            return *std::move(answer);
        }
    }
}

}  // namespace

InProcessLink::InProcessLink(CoordinatorDesk& desk, Answers& answers, std::string worker)
    : desk_(desk), answers_(answers), worker_(std::move(worker)), heartbeat_([this] {
          desk_.beat(worker_);
          watch_.hear(desk_.health());
          return desk_.beat_interval();
      }) {}

Roster InProcessLink::meet(const MeetRequest& request) {
    Roster roster = ask_until_answered([&](auto most) { return desk_.meet(request, most); });
    watch_.enter(roster.term, roster.number);
    const std::lock_guard lock(mutex_);
    met_ = {.term = roster.term, .roster = roster.number, .key = ""};
    return roster;
}

Task InProcessLink::task_after(const CallPlace& place, int64_t number) {
    return ask_until_answered([&](auto most) { return desk_.task_after(place, number, most); });
}

std::string InProcessLink::done(const CallPlace& place, int64_t number, const std::string& said) {
    return ask_until_answered([&](auto most) { return desk_.done(place, number, said, most); });
}

void InProcessLink::begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine) {
    (void)ask_until_answered([&](auto most) { return desk_.begin(place, record, mine, most); });
}

std::vector<int64_t> InProcessLink::lease(const CallPlace& place, int64_t most) {
    return desk_.lease(place, most);
}

Coordinator::Agreed InProcessLink::agree(const CallPlace& place, const GrainLedger& mine, bool wishes_to_stop) {
    return ask_until_answered([&](auto most) { return desk_.agree(place, mine, {.stop = wishes_to_stop}, most); });
}

Verdict InProcessLink::vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks) {
    return ask_until_answered([&](auto most) { return desk_.vote(place, attempt, checks, most); });
}

void InProcessLink::leave() {
    desk_.leave(worker_);
}

void InProcessLink::tell_when_roster_ends(RosterWatch::Told told) {
    watch_.tell(std::move(told));
}

std::string InProcessLink::ask(const std::string& subject, const std::string& question) {
    return answers_.answer(worker_, subject, question);
}

RosterKey InProcessLink::in_my_roster(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    return {.term = met_.term, .roster = met_.roster, .key = key};
}

void InProcessLink::set(const std::string& key, const std::string& value) {
    desk_.set_key(in_my_roster(key), value);
}

std::string InProcessLink::get(const std::string& key, std::chrono::milliseconds limit) {
    if (auto value = desk_.value_of_key(in_my_roster(key), limit)) {
        return *std::move(value);
    }
    throw RosterChanged(cat("key ", key, " did not come within ", limit.count(), " ms"));
}

}  // namespace accrue
