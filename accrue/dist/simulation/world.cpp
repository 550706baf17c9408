#include "accrue/dist/simulation/world.h"

#include "accrue/base/error.h"

namespace accrue::simulation {

World::World(uint64_t seed, const Disturbances& disturbances, Tally& tally)
    : dice_(seed), disturbances_(disturbances), tally_(tally), model_(seed), checkpoint_(model_.after(0)) {
    restart_coordinator();
}

void World::count_coordinator() {
    if (coordinator_) {
        const Coordinator::Counts counts = coordinator_->counts();
        tally_.lost_workers += counts.lost_workers;
        tally_.recomputed_grains += counts.recomputed_grains;
        tally_.faults += counts.faults;
        tally_.rosters += coordinator_->roster();
    }
}

void World::restart_coordinator() {
    count_coordinator();
    ++tally_.coordinator_starts;
    coordinator_ = std::make_unique<Coordinator>(Coordinator::Options{
        .term = ++term_, .silence_seconds = 2, .least_workers = dice_.between(1, 3), .gather_seconds = 3});
}

void World::deliver_a_late_copy() {
    if (late_copies_.empty()) {
        return;
    }
    ++tally_.late_copies;
    const auto place = late_copies_.begin() + dice_.between(0, std::ssize(late_copies_) - 1);
    auto copy = std::move(*place);
    late_copies_.erase(place);
    try {
        if (!copy(*coordinator_, now_) && dice_.between(1, 4) > 1) {
            late_copies_.push_back(std::move(copy));
        }
    } catch (const RosterChanged&) {  // nobody listens
    }
}

void World::calm_down() {
    while (!late_copies_.empty()) {
        deliver_a_late_copy();
    }
    disturbances_ = {};
}

std::shared_ptr<SimulatedMesh> World::mesh(const Roster& roster) {
    auto& mesh = meshes_[{roster.term, roster.number}];
    if (!mesh) {
        mesh = std::make_shared<SimulatedMesh>(roster.workers.size());
    }
    return mesh;
}

std::optional<Corruption> World::corruption(size_t members) {
    if (!happens(disturbances_.corruptions)) {
        return std::nullopt;
    }
    const auto any_rank = [&] { return static_cast<size_t>(dice_.between(0, static_cast<int64_t>(members) - 1)); };
    return Corruption{.range = any_rank(), .receiver = dice_.one_in(2) ? std::optional(any_rank()) : std::nullopt};
}

const State& World::load_checkpoint() {
    ++tally_.checkpoints_loaded;
    return checkpoint_;
}

void World::note_step(const State& state) {
    require(state == model_.after(state.step), cat("step ", state.step, " gives the weights of one process alone"));
    if (state.step > checkpoint_.step && dice_.one_in(3)) {
        checkpoint_ = state;
    }
}

void World::require(bool holds, const std::string& promise) const {
    if (!holds) {
        throw Broken("not kept: " + promise);
    }
}

}  // namespace accrue::simulation
