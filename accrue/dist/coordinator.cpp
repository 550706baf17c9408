#include "accrue/dist/coordinator.h"

#include <algorithm>
#include <utility>

namespace accrue {

Coordinator::Together::Together(int64_t number, const std::vector<std::string>& members)
    : roster(number), workers(members), tasks(members), leases(members.size()) {}

void Coordinator::require_no_fault() const {
    if (!fault_.empty()) {
        throw Error(fault_);
    }
}

template <class Action>
auto Coordinator::for_member(const CallPlace& place, const Action& action) {
    require_no_fault();
    try {
        const size_t rank = rosters_.enter(place);
        if (together_.roster != rosters_.number()) {
            together_ = Together(rosters_.number(), rosters_.workers());
        }
        return action(rank);
    } catch (const RosterChanged&) {
        throw;
    } catch (const Error& error) {
        fault_ = error.what();
        throw;
    }
}

Soon<Roster> Coordinator::meet(const MeetRequest& request, double now) {
    require_no_fault();
    return rosters_.meet(request, now);
}

void Coordinator::set_task(std::string words) {
    task_ = {.number = task_.number + 1, .words = std::move(words)};
    asks_to_stop_ = false;
}

Soon<Task> Coordinator::task_after(const CallPlace& place, int64_t number) {
    return for_member(place, [&](size_t rank) { return together_.tasks.after(rank, number, task_); });
}

Soon<std::string> Coordinator::done(const CallPlace& place, int64_t number, const std::string& said) {
    return for_member(place, [&](size_t rank) { return together_.tasks.done(rank, number, said); });
}

// Sums may hold grains only where a window goes on: in a new roster those of whoever keeps them, in the same one after a stop.
void Coordinator::require_may_begin(size_t rank, const WindowRecord& record, const GrainLedger& mine) const {
    bool goes_on = rosters_.keeps_sums(rank);
    if (const auto& last = together_.window) {
        const bool is_same_step = record.step == last->record().step;
        const bool replays = is_same_step && record.replay > last->record().replay && last->is_agreed();
        const bool follows = record.step > last->record().step && last->is_committed() && !last->is_left_open();
        goes_on = is_same_step && record.replay == last->record().replay && last->is_left_open();
        if (!replays && !follows && !goes_on) {
            throw Error(cat("worker ", together_.workers[rank], " begins step ", record.step, " (replay ",
                            record.replay, "), but step ", last->record().step, " (replay ", last->record().replay,
                            ") has not ended for all"));
        }
    }
    if (!goes_on && mine.finished() > 0) {
        throw Error(cat("worker ", together_.workers[rank], " begins step ", record.step, " with ", mine.finished(),
                        " grains in its sums, but they count no longer: it must begin with empty sums"));
    }
}

Soon<bool> Coordinator::begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine) {
    return for_member(place, [&](size_t rank) -> Soon<bool> {
        const auto& window = together_.window;
        auto& next = together_.next_window;
        if (window && window->was_begun_by(rank, place.call)) {
            return true;
        }
        if (!next || !next->was_begun_by(rank, place.call)) {
            require_may_begin(rank, record, mine);
            if (!next) {
                next.emplace(record, together_.workers);
            }
            next->begin(rank, place.call, record, mine);
        }
        if (!next->is_begun_by_all()) {
            return std::nullopt;
        }
        open_next_window();
        return true;
    });
}

void Coordinator::open_next_window() {
    together_.window = std::exchange(together_.next_window, std::nullopt);
    together_.window->share_out(speeds());
    if (asks_to_stop_) {
        together_.window->stop();
    }
    for (Lease& lease : together_.leases) {
        lease.is_timed = false;
    }
    rosters_.note_window_begun();
    note_begun();
}

SharedWindow& Coordinator::open_window(size_t rank) {
    if (!together_.window) {
        throw Error(cat("worker ", together_.workers[rank], " works in a window that not all have begun"));
    }
    return *together_.window;
}

std::vector<int64_t> Coordinator::lease(const CallPlace& place, int64_t most, double now) {
    return for_member(place, [&](size_t rank) {
        Lease& last = together_.leases[rank];
        if (last.call != place.call) {
            if (last.is_timed) {
                speeds_[place.worker].add(std::ssize(last.grains), now - last.given_at);
            }
            last = {.call = place.call, .grains = open_window(rank).give(rank, most, speeds()), .given_at = now};
            last.is_timed = !last.grains.empty();
            note_given(place.worker, last.grains);
        }
        return last.grains;
    });
}

Soon<Coordinator::Agreed> Coordinator::agree(const CallPlace& place, const GrainLedger& mine, bool wishes_to_stop) {
    return for_member(place, [&](size_t rank) {
        SharedWindow& window = open_window(rank);
        if (wishes_to_stop) {
            window.stop();
        }
        return window.agree(rank, mine);
    });
}

Soon<Verdict> Coordinator::vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks) {
    return for_member(place, [&](size_t rank) {
        SharedWindow& window = open_window(rank);
        const int64_t decided = window.decided_exchanges();
        Soon<Verdict> verdict = window.vote(rank, attempt, checks);
        if (window.decided_exchanges() > decided) {
            note_verdict(*verdict);
        }
        return verdict;
    });
}

void Coordinator::note_verdict(const Verdict& verdict) {
    if (!verdict.commits) {
        ++faults_;
        tell(cat("step ", together_.window->record().step, ": the sums are exchanged again, because ", verdict.fault));
    } else if (together_.window->is_left_open()) {
        rosters_.note_sums_gathered();
    }
}

void Coordinator::ask_to_stop() {
    asks_to_stop_ = true;
    if (together_.window) {
        together_.window->stop();
    }
}

std::vector<double> Coordinator::speeds() const {
    std::vector<double> all;
    for (const std::string& worker : together_.workers) {
        const auto found = speeds_.find(worker);
        all.push_back(found == speeds_.end() ? 0 : found->second.grains_per_second());
    }
    return all;
}

// Was given to somebody whose sums count no longer.
bool Coordinator::is_lost(int64_t grain) const {
    const std::string& holder = holders_.workers[static_cast<size_t>(grain)];
    const auto& workers = together_.workers;
    const auto found = std::find(workers.begin(), workers.end(), holder);
    return !holder.empty() &&
           (found == workers.end() || !rosters_.keeps_sums(static_cast<size_t>(found - workers.begin())));
}

void Coordinator::note_begun() {
    const SharedWindow& window = *together_.window;
    if (holders_.record != window.record()) {
        const int64_t grains = window.record().window.grains();
        holders_ = {.record = window.record(), .workers = std::vector<std::string>(static_cast<size_t>(grains))};
    }
    int64_t lost = 0;
    for (int64_t grain = 0; grain < std::ssize(holders_.workers); ++grain) {
        if (const auto rank = window.holder(grain)) {
            holders_.workers[static_cast<size_t>(grain)] = together_.workers[*rank];
        } else {
            lost += is_lost(grain) ? 1 : 0;
        }
    }
    if (lost > 0) {
        tell(cat("step ", window.record().step, ": ", lost, lost == 1 ? " grain is" : " grains are",
                 " computed again, because whoever had them is gone"));
    }
}

void Coordinator::note_given(const std::string& worker, const std::vector<int64_t>& grains) {
    for (const int64_t grain : grains) {
        recomputed_grains_ += is_lost(grain) ? 1 : 0;
        holders_.workers[static_cast<size_t>(grain)] = worker;
    }
}

Coordinator::Counts Coordinator::counts() const {
    return {.lost_workers = rosters_.lost_workers(), .recomputed_grains = recomputed_grains_, .faults = faults_};
}

void Coordinator::tell(std::string news) {
    news_ = take_news();
    news_.push_back(std::move(news));
}

std::vector<std::string> Coordinator::take_news() {
    for (std::string& news : rosters_.take_news()) {
        news_.push_back(std::move(news));
    }
    return std::exchange(news_, {});
}

}  // namespace accrue
