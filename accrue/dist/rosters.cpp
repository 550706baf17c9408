#include "accrue/dist/rosters.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

namespace accrue {
namespace {

std::string workers_text(int64_t count) {
    return cat(count, count == 1 ? " worker" : " workers");
}

}  // namespace

const Rosters::Member* Rosters::member(const std::string& worker) const {
    const auto found = std::find_if(members_.begin(), members_.end(),
                                    [&](const Member& each) { return each.request.worker == worker; });
    return found == members_.end() ? nullptr : &*found;
}

Rosters::Member* Rosters::live_member(const std::string& worker) {
    const Member* const known = member(worker);
    return known == nullptr || known->is_gone ? nullptr : &members_[static_cast<size_t>(known - members_.data())];
}

// A worker names the roster that it was in last, so nothing that it asks is older than what it has asked before, or than a roster
// in which it has made a call. Whoever names no roster may have been started again.
bool Rosters::is_late_copy(const MeetRequest& request) const {
    int64_t newest = 0;
    if (const auto waits = waiting_.find(request.worker); waits != waiting_.end()) {
        newest = last_roster(waits->second);
    }
    if (const Member* const known = member(request.worker)) {
        newest = std::max(newest, known->newest_call > 0 ? number_ : last_roster(known->request));
    }
    return last_roster(request) > 0 && last_roster(request) < newest;
}

Soon<Roster> Rosters::meet(const MeetRequest& request, double now) {
    beat(request.worker, now);
    if (is_late_copy(request)) {
        return std::nullopt;
    }
    if (auto roster = present_roster(request)) {
        return roster;  // its answer was lost
    }
    note_who_asks(request);
    is_formed_ = false;
    if (waiting_.empty()) {
        first_came_at_ = now;
    }
    waiting_[request.worker] = request;
    form_if_complete(now);
    return present_roster(request);
}

// For a member that has made no call in it.
Soon<Roster> Rosters::present_roster(const MeetRequest& request) const {
    const Member* const asks = member(request.worker);
    if (!is_formed_ || asks == nullptr || asks->request != request || asks->newest_call > 0) {
        return std::nullopt;
    }
    return Roster{.term = options_.term,
                  .number = number_,
                  .rank = asks - members_.data(),
                  .workers = workers(),
                  .steps = steps(),
                  .keeps_sums = asks->keeps_sums};
}

void Rosters::note_who_asks(const MeetRequest& request) {
    Member* const known = live_member(request.worker);
    if (known == nullptr) {
        return;  // told when it has joined
    }
    if (last_roster(request) == 0 && (known->newest_call > 0 || known->request != request)) {
        known->is_gone = true;
        ++lost_workers_;
        news_.push_back(cat("worker ", request.worker, " was started again"));
    } else if (is_formed_) {
        news_.push_back(cat("worker ", request.worker, " has lost the others: all meet again"));
    }
}

void Rosters::lose(const std::string& worker, const std::string& why) {
    waiting_.erase(worker);
    Member* const lost = live_member(worker);
    if (lost == nullptr) {
        return;
    }
    lost->is_gone = true;
    is_formed_ = false;
    const auto left = std::count_if(members_.begin(), members_.end(), [](const Member& each) { return !each.is_gone; });
    news_.push_back(cat("worker ", worker, " ", why, ": ",
                        left == 0 ? "nobody is left" : workers_text(left) + (left == 1 ? " goes on" : " go on")));
}

void Rosters::leave(const std::string& worker, double now) {
    seen_.erase(worker);
    if (Member* const member = live_member(worker)) {
        member->has_left = true;
    }
    lose(worker, "has left");
    form_if_complete(now);
}

void Rosters::look_around(double now) {
    for (auto each = seen_.begin(); each != seen_.end();) {
        if (now - each->second <= options_.silence_seconds) {
            ++each;
            continue;
        }
        lost_workers_ += live_member(each->first) != nullptr ? 1 : 0;
        lose(each->first, cat("is gone (silent for ", options_.silence_seconds, " s)"));
        each = seen_.erase(each);
    }
    form_if_complete(now);
}

bool Rosters::is_complete(double now) const {
    if (waiting_.empty()) {
        return false;
    }
    if (number_ == 0) {
        return std::ssize(waiting_) >= options_.least_workers || now - first_came_at_ >= options_.gather_seconds;
    }
    return std::all_of(members_.begin(), members_.end(),
                       [&](const Member& each) { return each.is_gone || waiting_.contains(each.request.worker); });
}

Rosters::Member Rosters::member_of(const MeetRequest& request) const {
    const int64_t last = last_roster(request);
    const bool was_there = last > 0 && last >= last_begun_ && last <= number_;
    const bool has_given_away = gathered_by_ && *gathered_by_ != request.worker;
    return {.request = request, .keeps_sums = was_there && !has_given_away};
}

// Whoever was there keeps the order, others come behind by name.
void Rosters::form_if_complete(double now) {
    if (is_formed_ || !is_complete(now)) {
        return;
    }
    std::vector<Member> formed;
    std::vector<std::string> joined;
    for (const Member& each : members_) {
        if (const auto waits = waiting_.extract(each.request.worker)) {
            formed.push_back(member_of(waits.mapped()));
            if (each.is_gone) {
                joined.push_back(each.request.worker);
            }
        }
    }
    for (const auto& [worker, request] : waiting_) {
        formed.push_back(member_of(request));
        joined.push_back(worker);
    }
    members_ = std::move(formed);
    waiting_.clear();
    ++number_;
    is_formed_ = true;
    if (!joined.empty()) {
        news_.push_back(
            fmt::format("worker {} joined: {}", fmt::join(joined, ", worker "), workers_text(std::ssize(members_))));
    }
}

size_t Rosters::enter(const CallPlace& place) {
    Member* const calls = live_member(place.worker);
    if (place.term != options_.term || place.roster != number_ || !is_formed_ || calls == nullptr) {
        throw RosterChanged(cat("worker ", place.worker, " calls from roster ", place.roster, " of term ", place.term,
                                ", but ", is_formed_ ? "now is" : "all meet after", " roster ", number_, " of term ",
                                options_.term));
    }
    if (place.call < 1) {
        throw Error(cat("worker ", place.worker, " makes call ", place.call, ", but calls are counted from 1 on"));
    }
    if (place.call < calls->newest_call) {
        throw RosterChanged(
            cat("call ", place.call, " of worker ", place.worker, " comes after its call ", calls->newest_call));
    }
    calls->newest_call = place.call;
    return static_cast<size_t>(calls - members_.data());
}

void Rosters::note_window_begun() {
    last_begun_ = number_;
    gathered_by_.reset();
}

void Rosters::note_sums_gathered() {
    gathered_by_ = members_.front().request.worker;
}

std::vector<std::string> Rosters::workers() const {
    std::vector<std::string> workers;
    for (const Member& each : members_) {
        workers.push_back(each.request.worker);
    }
    return workers;
}

std::vector<int64_t> Rosters::steps() const {
    std::vector<int64_t> steps;
    for (const Member& each : members_) {
        steps.push_back(each.request.step);
    }
    return steps;
}

RosterHealth Rosters::health() const {
    const bool lacks_member = std::any_of(members_.begin(), members_.end(),
                                          [](const Member& each) { return each.is_gone && !each.has_left; });
    return {.term = options_.term, .roster = number_, .lacks_member = lacks_member};
}

int64_t Rosters::present() const {
    const auto members =
        std::count_if(members_.begin(), members_.end(), [](const Member& each) { return !each.is_gone; });
    const auto others = std::count_if(waiting_.begin(), waiting_.end(), [this](const auto& each) {
        const Member* const known = member(each.first);
        return known == nullptr || known->is_gone;
    });
    return members + others;
}

std::vector<std::string> Rosters::heard() const {
    std::vector<std::string> heard;
    for (const auto& [worker, at] : seen_) {
        heard.push_back(worker);
    }
    return heard;
}

std::vector<std::string> Rosters::take_news() {
    return std::exchange(news_, {});
}

}  // namespace accrue
