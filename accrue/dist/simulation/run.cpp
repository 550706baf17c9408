#include "accrue/dist/simulation/run.h"

#include <algorithm>

#include "accrue/base/random.h"

namespace accrue::simulation {
namespace {

constexpr int64_t kMostWorkers = 5;
// Three times as many as the longest of 100,000 runs took.
constexpr int64_t kMostCalmTurns = 10'000;

// Runs differ in what goes wrong, and how often: what is rare among many things is frequent among few.
Disturbances disturbances_of(uint64_t seed) {
    Dice dice(~seed);
    return {.lost_calls = dice.one_of<int64_t>({0, 3, 10, 40}),
            .late_copies = dice.one_of<int64_t>({0, 5, 30}),
            .corruptions = dice.one_of<int64_t>({0, 3, 10}),
            .timeouts = dice.one_of<int64_t>({0, 100, 1000}),
            .events = dice.one_of<int64_t>({15, 40, 100, 300})};
}

std::vector<Event> events_of(uint64_t seed) {
    using enum Event;
    std::vector<Event> some = {join};
    Dice dice(mix(seed, 1));
    for (const Event event :
         {kill, kill_all, start_again, leave, sleep, cut_off, wish_to_stop, ask_to_stop, restart_coordinator}) {
        if (dice.one_in(3)) {
            some.push_back(event);
        }
    }
    return some;
}

}  // namespace

SimulatedRun::SimulatedRun(const Plan& plan, Tally& tally)
    : plan_(plan),
      world_(plan.seed, disturbances_of(plan.seed), tally),
      leader_(world_, world_.dice().between(4, 12)),
      events_(events_of(plan.seed)) {
    for (int64_t i = world_.dice().between(1, kMostWorkers); i > 0; --i) {
        join();
    }
}

void SimulatedRun::run() {
    for (int64_t turn = 0; turn < plan_.disturbed_turns && !leader_.is_through(); ++turn) {
        if (world_.happens(world_.disturbances().events)) {
            disturb();
        }
        take_turn();
    }
    world_.calm_down();
    for (auto& worker : workers_) {
        worker->recover();
    }
    if (workers_.empty()) {
        join();
    }
    int64_t turns = 0;
    for (; !leader_.is_through(); ++turns) {
        world_.require(turns < kMostCalmTurns, "a run comes to its end when nothing disturbs it");
        take_turn();
    }
    world_.tally().longest_calm = std::max(world_.tally().longest_calm, turns);
}

void SimulatedRun::take_turn() {
    ++world_.tally().turns;
    world_.pass_time(0.001 * static_cast<double>(world_.dice().between(1, 50)));
    for (auto& worker : workers_) {
        worker->beat();
    }
    if (world_.dice().one_in(10)) {
        world_.coordinator().look_around(world_.now());
        (void)world_.coordinator().take_news();
    }
    if (world_.dice().one_in(20)) {
        world_.deliver_a_late_copy();
    }
    leader_.act();
    if (!workers_.empty()) {
        SimulatedWorker& worker = any_worker();
        if (worker.is_awake()) {
            worker.act();
        }
    }
}

void SimulatedRun::disturb() {
    if (workers_.empty()) {
        return join();
    }
    Dice& dice = world_.dice();
    const double seconds = 0.1 * static_cast<double>(dice.between(1, 60));
    switch (dice.one_of(events_)) {
        case Event::join:
            return std::ssize(workers_) < kMostWorkers ? join() : void();
        case Event::kill:
            return (void)kill();
        case Event::kill_all:
            return dice.one_in(10) ? workers_.clear() : void();
        case Event::start_again:
            return join(kill());
        case Event::leave:
            return leave();
        case Event::sleep:
            return any_worker().sleep(seconds);
        case Event::cut_off:
            return any_worker().cut_off(seconds);
        case Event::wish_to_stop:
            return any_worker().wish_to_stop();
        case Event::ask_to_stop:
            return world_.coordinator().ask_to_stop();
        case Event::restart_coordinator:
            return dice.one_in(10) ? world_.restart_coordinator() : void();
    }
}

void SimulatedRun::join(const std::string& name) {
    Dice& dice = world_.dice();
    workers_.push_back(std::make_unique<SimulatedWorker>(
        world_, SimulatedWorker::Nature{.name = name,
                                        .most_grains = dice.between(1, 3),
                                        .turns_a_batch = dice.one_of<int64_t>({1, 2, 10}),
                                        .mistake = names_ % 2 == 0 ? plan_.mistake : Mistake::none}));
}

SimulatedWorker& SimulatedRun::any_worker() {
    return *workers_[static_cast<size_t>(world_.dice().between(0, std::ssize(workers_) - 1))];
}

std::string SimulatedRun::kill() {
    std::swap(workers_[static_cast<size_t>(world_.dice().between(0, std::ssize(workers_) - 1))], workers_.back());
    std::string name = workers_.back()->name();
    workers_.back()->disconnect();
    workers_.pop_back();
    return name;
}

void SimulatedRun::leave() {
    (void)world_.ask([name = kill()](Coordinator& coordinator, double now) {
        coordinator.leave(name, now);
        return Soon<bool>(true);
    });
}

}  // namespace accrue::simulation
