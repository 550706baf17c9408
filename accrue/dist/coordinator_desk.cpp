#include "accrue/dist/coordinator_desk.h"

#include <algorithm>
#include <utility>

#include "accrue/base/clock.h"
#include "accrue/dist/link.h"

namespace accrue {
namespace {

// Of the leader's question whether to give up, and of changes that only time brings about.
constexpr std::chrono::milliseconds kLongestLook{100};

std::chrono::milliseconds milliseconds_of(double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

}  // namespace

CoordinatorDesk::CoordinatorDesk(const Coordinator::Options& options)
    : silence_(milliseconds_of(options.silence_seconds)), coordinator_(options), watch_([this] { look_around(); }) {}

CoordinatorDesk::~CoordinatorDesk() {
    {
        const std::lock_guard lock(mutex_);
        is_closed_ = true;
        ends_ = true;
        wake();
    }
    watch_.join();
}

void CoordinatorDesk::wake() {
    ++changes_;
    changed_.notify_all();
}

void CoordinatorDesk::look_around() {
    const Milliseconds interval = std::clamp(silence_ / 10, Milliseconds(1), kLongestLook);
    std::unique_lock lock(mutex_);
    while (!ends_) {
        coordinator_.look_around(seconds_now());
        wake();
        changed_.wait_for(lock, interval, [this] { return ends_; });
    }
}

void CoordinatorDesk::require_open() const {
    if (is_closed_) {
        throw CoordinatorLost("the coordinator has ended");
    }
}

// A worker that waits has its answer when somebody else gets his, when the roster is formed or ends, or when the run has ended: no
// other question changes anything for those who wait.
template <class Ask>
auto CoordinatorDesk::ask_once(const Ask& ask) -> decltype(ask()) {
    require_open();
    const int64_t roster = coordinator_.roster();
    const bool was_formed = coordinator_.is_formed();
    try {
        auto answer = ask();
        if (answer || coordinator_.roster() != roster || coordinator_.is_formed() != was_formed) {
            wake();
        }
        return answer;
    } catch (const RosterChanged&) {
        throw;
    } catch (const Error& error) {
        fault_ = error.what();
        wake();
        throw;
    }
}

template <class Ask>
auto CoordinatorDesk::answer_within(Milliseconds most, const Ask& ask) -> decltype(ask()) {
    const Clock::time_point until = Clock::now() + most;
    std::unique_lock lock(mutex_);
    while (true) {
        auto answer = ask_once(ask);
        if (answer || Clock::now() >= until) {
            return answer;
        }
        const int64_t seen = changes_;
        changed_.wait_until(lock, until, [&] { return changes_ != seen; });
    }
}

void CoordinatorDesk::beat(const std::string& worker) {
    const std::lock_guard lock(mutex_);
    require_open();
    coordinator_.beat(worker, seconds_now());
}

RosterHealth CoordinatorDesk::health() const {
    const std::lock_guard lock(mutex_);
    return coordinator_.health();
}

void CoordinatorDesk::leave(const std::string& worker) {
    const std::lock_guard lock(mutex_);
    require_open();
    coordinator_.leave(worker, seconds_now());
    wake();
}

Soon<Roster> CoordinatorDesk::meet(const MeetRequest& request, Milliseconds most) {
    return answer_within(most, [&] { return coordinator_.meet(request, seconds_now()); });
}

Soon<Task> CoordinatorDesk::task_after(const CallPlace& place, int64_t number, Milliseconds most) {
    return answer_within(most, [&] { return coordinator_.task_after(place, number); });
}

Soon<std::string> CoordinatorDesk::done(const CallPlace& place, int64_t number, const std::string& said,
                                        Milliseconds most) {
    return answer_within(most, [&] {
        auto answer = coordinator_.done(place, number, said);
        if (answer && number > answered_task_) {
            answered_task_ = number;
            task_answer_ = *answer;
            roster_of_answer_ = place.roster;
        }
        return answer;
    });
}

Soon<bool> CoordinatorDesk::begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine,
                                  Milliseconds most) {
    return answer_within(most, [&] { return coordinator_.begin(place, record, mine); });
}

std::vector<int64_t> CoordinatorDesk::lease(const CallPlace& place, int64_t most_grains) {
    const std::lock_guard lock(mutex_);
    return *ask_once([&] { return std::optional(coordinator_.lease(place, most_grains, seconds_now())); });
}

Soon<Coordinator::Agreed> CoordinatorDesk::agree(const CallPlace& place, const GrainLedger& mine, Wish wish,
                                                 Milliseconds most) {
    return answer_within(most, [&] { return coordinator_.agree(place, mine, wish.stop); });
}

Soon<Verdict> CoordinatorDesk::vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks,
                                    Milliseconds most) {
    return answer_within(most, [&] { return coordinator_.vote(place, attempt, checks); });
}

void CoordinatorDesk::require_present(const RosterKey& key) {
    if (!coordinator_.is_formed() || key.term != coordinator_.term() || key.roster != coordinator_.roster()) {
        throw RosterChanged(cat("key ", key.key, " is of roster ", key.roster, " of term ", key.term, ", but ",
                                coordinator_.is_formed() ? "now is" : "all meet after", " roster ",
                                coordinator_.roster(), " of term ", coordinator_.term()));
    }
    if (roster_of_keys_ != key.roster) {
        keys_.clear();
        roster_of_keys_ = key.roster;
    }
}

void CoordinatorDesk::set_key(const RosterKey& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    require_open();
    require_present(key);
    keys_[key.key] = value;
    wake();
}

Soon<std::string> CoordinatorDesk::value_of_key(const RosterKey& key, Milliseconds most) {
    return answer_within(most, [&]() -> Soon<std::string> {
        require_present(key);
        const auto found = keys_.find(key.key);
        return found == keys_.end() ? std::nullopt : Soon<std::string>(found->second);
    });
}

CoordinatorDesk::Milliseconds CoordinatorDesk::beat_interval() const {
    return std::max(silence_ / 5, Milliseconds(1));
}

int64_t CoordinatorDesk::term() const {
    const std::lock_guard lock(mutex_);
    return coordinator_.term();
}

int64_t CoordinatorDesk::set_task(std::string words) {
    const std::lock_guard lock(mutex_);
    coordinator_.set_task(std::move(words));
    wake();
    return ++newest_task_;
}

Soon<std::string> CoordinatorDesk::task_answer(int64_t number, const std::function<bool()>& gives_up) {
    std::unique_lock lock(mutex_);
    while (answered_task_ < number && number <= newest_task_) {
        if (!fault_.empty()) {
            throw Error(fault_);
        }
        require_open();
        lock.unlock();
        if (gives_up()) {
            return std::nullopt;
        }
        lock.lock();
        const int64_t seen = changes_;
        changed_.wait_for(lock, kLongestLook, [&] { return changes_ != seen || answered_task_ >= number; });
    }
    if (answered_task_ != number) {
        throw Error(cat("the answer of task ", number, " is asked for, but the newest task is ", newest_task_,
                        ", and the last answer that of task ", answered_task_));
    }
    return task_answer_;
}

int64_t CoordinatorDesk::roster_of_answer() const {
    const std::lock_guard lock(mutex_);
    return roster_of_answer_;
}

void CoordinatorDesk::wait_for_no_more() {
    const std::lock_guard lock(mutex_);
    coordinator_.wait_for_no_more();
    coordinator_.look_around(seconds_now());
    wake();
}

void CoordinatorDesk::ask_to_stop() {
    const std::lock_guard lock(mutex_);
    coordinator_.ask_to_stop();
    wake();
}

std::vector<std::string> CoordinatorDesk::take_news() {
    const std::lock_guard lock(mutex_);
    return coordinator_.take_news();
}

CoordinatorDesk::Standing CoordinatorDesk::standing() const {
    const std::lock_guard lock(mutex_);
    return {.term = coordinator_.term(),
            .roster = coordinator_.roster(),
            .is_formed = coordinator_.is_formed(),
            .members = coordinator_.members(),
            .steps = coordinator_.steps(),
            .present = coordinator_.present(),
            .counts = coordinator_.counts()};
}

std::vector<std::string> CoordinatorDesk::heard() const {
    const std::lock_guard lock(mutex_);
    return coordinator_.heard();
}

void CoordinatorDesk::close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    wake();
}

int64_t CoordinatorDesk::changes_after(int64_t seen, Milliseconds most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [&] { return changes_ > seen; });
    return changes_;
}

void CoordinatorDesk::note_change() {
    const std::lock_guard lock(mutex_);
    wake();
}

}  // namespace accrue
