#include "accrue/dist/simulation/worker.h"

#include <algorithm>

#include "accrue/base/error.h"

namespace accrue::simulation {
namespace {

// How long a worker waits for another one in the mesh.
constexpr double kLimitSeconds = 4;

}  // namespace

void SimulatedWorker::act() {
    ++turns_;
    try {
        switch (stage_) {
            case Stage::meet:
                return meet();
            case Stage::synchronize:
                return synchronize();
            case Stage::take_task:
                return take_task();
            case Stage::begin:
                return begin();
            case Stage::lease:
                return lease();
            case Stage::compute:
                return compute();
            case Stage::agree:
                return agree();
            case Stage::exchange:
                return exchange();
            case Stage::vote:
                return vote();
            case Stage::report:
                return report();
        }
    } catch (const RosterChanged&) {
        lose_roster();
    }
}

void SimulatedWorker::beat() {
    if (is_awake() && world_.now() >= next_beat_) {
        next_beat_ = world_.now() + 0.5;
        (void)ask([name = name()](Coordinator& coordinator, double now) {
            coordinator.beat(name, now);
            return Soon<bool>(true);
        });
    }
}

void SimulatedWorker::disconnect() {
    if (mesh_) {
        mesh_->break_off();
    }
}

// Sums stay as they were. But those of a replay are given up: members that have not heard of it, or that join, begin the window
// with its first units, and all need the same.
void SimulatedWorker::lose_roster() {
    disconnect();
    const bool was_receiving =
        stage_ == Stage::synchronize && state_.step < *std::max_element(roster_.steps.begin(), roster_.steps.end());
    if (was_receiving && world_.dice().one_in(2)) {
        state_ = {};  // half of it was overwritten
        open_.reset();
    }
    if (open_ && open_->record.replay > 0 && nature_.mistake != Mistake::keeps_replay) {
        open_.reset();
    }
    go_to(Stage::meet);
}

void SimulatedWorker::go_to(Stage stage) {
    stage_ = stage;
    stage_since_ = world_.now();
    turns_ = 0;
    ++call_;
}

CallPlace SimulatedWorker::place() {
    if (nature_.mistake == Mistake::renumbers_calls) {
        ++call_;
    }
    return {.worker = name(), .term = roster_.term, .roster = roster_.number, .call = call_};
}

void SimulatedWorker::meet() {
    const MeetRequest request{.worker = name(), .term = roster_.term, .roster = roster_.number, .step = state_.step};
    const auto roster = ask([request](Coordinator& coordinator, double now) { return coordinator.meet(request, now); });
    if (!roster) {
        return;
    }
    roster_ = *roster;
    mesh_ = world_.mesh(roster_);
    next_operation_ = 0;
    if (nature_.mistake != Mistake::keeps_task) {
        task_ = {};
    }
    if (!roster_.keeps_sums && nature_.mistake != Mistake::keeps_lost_sums) {
        open_.reset();
    }
    go_to(Stage::synchronize);
}

const Operation* SimulatedWorker::together(const Contribution& mine) {
    Operation& operation = mesh_->operation(next_operation_);
    if (mesh_->is_broken() && !(operation.is_complete() && world_.dice().one_in(2))) {
        throw RosterChanged("a member is gone");
    }
    auto& given = operation.given[rank()];
    if (!given) {
        given = mine;
    }
    if (operation.is_complete()) {
        ++next_operation_;
        return &operation;
    }
    if (world_.now() - stage_since_ > kLimitSeconds || world_.happens(world_.disturbances().timeouts)) {
        throw RosterChanged("a member is silent");
    }
    return nullptr;
}

// Whoever is behind gets its weights from the first of those who are ahead. If nobody has any, that one loads a checkpoint.
void SimulatedWorker::synchronize() {
    const auto ahead = std::max_element(roster_.steps.begin(), roster_.steps.end());
    const auto [least, most] = std::minmax_element(roster_.steps.begin(), roster_.steps.end());
    if (*least == *most && *most >= 0) {
        return go_to(Stage::take_task);
    }
    const auto source = static_cast<size_t>(ahead - roster_.steps.begin());
    if (source == rank() && state_.step < 0) {
        state_ = world_.load_checkpoint();
    }
    const Operation* const operation = together({.state = state_, .sums = {}});
    if (operation == nullptr) {
        return;
    }
    if (roster_.steps[rank()] < *ahead || *ahead < 0) {
        state_ = operation->given[source]->state;
        open_.reset();
    }
    world_.require(state_ == world_.model().after(state_.step), "a state that was handed on is whole");
    go_to(Stage::take_task);
}

void SimulatedWorker::take_task() {
    const auto task = ask([place = place(), number = task_.number](Coordinator& coordinator, double /*now*/) {
        return coordinator.task_after(place, number);
    });
    if (task) {
        task_ = *task;
        go_on_with_task();
    }
}

// A task's words are the step up to which to go.
void SimulatedWorker::go_on_with_task() {
    if (state_.step >= std::stoll(task_.words)) {
        report_ = cat("step ", state_.step, ": ", state_.weights.front());
        return go_to(Stage::report);
    }
    if (!open_) {
        open_ = world_.model().open_window(state_.step + 1, 0);
    }
    go_to(Stage::begin);
}

void SimulatedWorker::begin() {
    const auto begun =
        ask([place = place(), record = open_->record, ledger = open_->ledger](
                Coordinator& coordinator, double /*now*/) { return coordinator.begin(place, record, ledger); });
    if (begun) {
        attempt_ = 0;
        go_to(Stage::lease);
    }
}

void SimulatedWorker::lease() {
    stops_ = wishes_to_stop_;
    if (stops_) {
        return go_to(Stage::agree);
    }
    const auto grains = ask([place = place(), most = nature_.most_grains](Coordinator& coordinator, double now) {
        return Soon<std::vector<int64_t>>(coordinator.lease(place, most, now));
    });
    if (grains) {
        batch_ = *grains;
        go_to(batch_.empty() ? Stage::agree : Stage::compute);
    }
}

void SimulatedWorker::compute() {
    if (turns_ < nature_.turns_a_batch) {
        return;
    }
    world_.require(std::ssize(batch_) <= nature_.most_grains, "a micro-batch has as many grains as were asked for");
    for (const int64_t grain : batch_) {
        world_.require(!open_->ledger.grain(grain).finished, "nobody is given what it has finished");
        world_.model().add_grain(state_, grain, *open_);
    }
    go_to(Stage::lease);
}

void SimulatedWorker::agree() {
    const auto agreed =
        ask([place = place(), ledger = open_->ledger, stops = stops_](Coordinator& coordinator, double /*now*/) {
            return coordinator.agree(place, ledger, stops);
        });
    if (!agreed) {
        return;
    }
    everyone_ = agreed->everyone;
    is_left_open_ = !everyone_.missing().empty();
    world_.require(!is_left_open_ || agreed->stops, "a window is complete if nobody stops");
    if (!is_left_open_ && Model::must_replay(everyone_)) {
        ++world_.tally().replays;
        open_ = world_.model().open_window(open_->record.step, open_->record.replay + 1);
        return go_to(Stage::begin);
    }
    go_to(Stage::exchange);
}

void SimulatedWorker::exchange() {
    Operation& next = mesh_->operation(next_operation_);
    if (!next.is_begun()) {
        next.corruption = world_.corruption(mesh_->members());
    }
    exchanged_ = together({.state = state_, .sums = *open_});
    if (exchanged_ != nullptr) {
        check_exchange(*exchanged_);
        if (nature_.mistake == Mistake::applies_unheard && !is_left_open_) {
            return apply();
        }
        go_to(Stage::vote);
    }
}

void SimulatedWorker::check_exchange(const Operation& exchange) const {
    GrainLedger all = world_.model().open_window(open_->record.step, open_->record.replay).ledger;
    for (const auto& each : exchange.given) {
        world_.require(each->state == state_ && each->sums.record == open_->record,
                       "all exchange sums of the same window");
        for (int64_t grain = 0; grain < all.grains(); ++grain) {
            world_.require(!all.grain(grain).finished || !each->sums.ledger.grain(grain).finished,
                           "a grain is in the sums of one worker");
        }
        all.add(each->sums.ledger);
    }
    world_.require(all == everyone_, "what was agreed on is what is exchanged");
}

void SimulatedWorker::vote() {
    const size_t ranges = roster_.workers.size();
    const ExchangeChecks checks{.given = checks_of(open_->integers, ranges),
                                .total = checks_of(exchanged_->total(rank()), ranges)};
    const auto verdict = ask([place = place(), attempt = attempt_, checks](Coordinator& coordinator, double /*now*/) {
        return coordinator.vote(place, attempt, checks);
    });
    if (!verdict) {
        return;
    }
    check_verdict(*verdict);
    if (!verdict->commits) {
        ++attempt_;
        return go_to(Stage::exchange);
    }
    if (is_left_open_) {
        return gather();
    }
    apply();
}

// The verdict names whoever it was, and nobody else.
void SimulatedWorker::check_verdict(const Verdict& verdict) const {
    const auto& corruption = exchanged_->corruption;
    world_.require(verdict.commits == !corruption, "an exchange counts if nothing was changed on the way");
    for (size_t each = 0; each < roster_.workers.size(); ++each) {
        const bool is_named = (verdict.fault + " ").find("worker " + roster_.workers[each] + " ") != std::string::npos;
        const bool is_at_fault = corruption && each == corruption->receiver.value_or(corruption->range);
        world_.require(is_named == is_at_fault, cat("\"", verdict.fault, "\" names whoever is at fault"));
    }
}

void SimulatedWorker::apply() {
    state_ = world_.model().updated(state_, exchanged_->total(rank()));
    world_.note_step(state_);
    open_.reset();
    go_on_with_task();
}

// Rank 0 keeps what all have of a window that is left open.
void SimulatedWorker::gather() {
    ++world_.tally().windows_left_open;
    if (rank() == 0) {
        open_->integers = exchanged_->total(0);
        open_->ledger = everyone_;
    } else {
        open_ = world_.model().open_window(open_->record.step, open_->record.replay);
    }
    wishes_to_stop_ = false;
    report_ = cat("stopped in step ", open_->record.step);
    go_to(Stage::report);
}

void SimulatedWorker::report() {
    const std::string said = report_ + (nature_.mistake == Mistake::differs ? " or so" : "");
    const auto answer =
        ask([&world = world_, place = place(), number = task_.number, said](Coordinator& coordinator, double /*now*/) {
            auto all_say = coordinator.done(place, number, said);
            if (all_say) {
                world.note_done({.term = place.term, .number = number, .words = *all_say});
            }
            return all_say;
        });
    if (answer) {
        world_.require(*answer == said, "all say the same");
        go_to(Stage::take_task);
    }
}

}  // namespace accrue::simulation
