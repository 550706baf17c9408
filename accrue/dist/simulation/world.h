#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/soaking/dice.h"

#include "accrue/dist/coordinator.h"
#include "accrue/dist/simulation/mesh.h"
#include "accrue/dist/simulation/model.h"

namespace accrue::simulation {

using soaking::Dice;

// A promise was not kept.
class Broken final : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// How often something goes wrong: once in so many times; 0 = never.
struct Disturbances {
    int64_t lost_calls = 0;   // each way
    int64_t late_copies = 0;  // of calls
    int64_t corruptions = 0;  // of exchanges
    int64_t timeouts = 0;     // of turns in which a worker waits for others, though nobody is gone
    int64_t events = 0;       // of all turns
};

// How often something happened, in any number of runs.
struct Tally {
    int64_t turns = 0;
    int64_t rosters = 0;
    int64_t late_copies = 0;
    int64_t lost_workers = 0;
    int64_t recomputed_grains = 0;
    int64_t faults = 0;
    int64_t windows_left_open = 0;
    int64_t replays = 0;
    int64_t checkpoints_loaded = 0;
    int64_t coordinator_starts = 0;
    int64_t longest_calm = 0;  // turns that a run took to its end after the last disturbance
};

// What the workers of a run share: the coordinator, the way to it, the mesh, and a checkpoint.
class World {
public:
    World(uint64_t seed, const Disturbances& disturbances, Tally& tally);
    ~World() { count_coordinator(); }
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    [[nodiscard]] Dice& dice() { return dice_; }
    [[nodiscard]] Model& model() { return model_; }
    [[nodiscard]] Tally& tally() { return tally_; }
    [[nodiscard]] Coordinator& coordinator() { return *coordinator_; }
    [[nodiscard]] const Disturbances& disturbances() const { return disturbances_; }
    [[nodiscard]] double now() const { return now_; }
    void pass_time(double seconds) { now_ += seconds; }
    [[nodiscard]] bool happens(int64_t one_in) { return one_in > 0 && dice_.one_in(one_in); }

    // What call(coordinator, time) gives. Nothing: there is no answer yet, or the call was lost, or its answer.
    template <class Call>
    auto ask(const Call& call) -> decltype(call(std::declval<Coordinator&>(), 0.0));
    // It may be asked again and again, until there is an answer, though nobody waits for it.
    void deliver_a_late_copy();
    // One that knows nothing takes the place of the coordinator.
    void restart_coordinator();
    // No disturbance from now on, and no copy is under way any more.
    void calm_down();

    [[nodiscard]] std::shared_ptr<SimulatedMesh> mesh(const Roster& roster);
    [[nodiscard]] std::optional<Corruption> corruption(size_t members);

    [[nodiscard]] const State& load_checkpoint();
    // A worker has made a step.
    void note_step(const State& state);
    // All members have said this of a task.
    struct DoneTask {
        int64_t term = 0;
        int64_t number = 0;
        std::string words;
    };
    void note_done(DoneTask task) { done_task_ = std::move(task); }
    [[nodiscard]] const DoneTask& done_task() const { return done_task_; }
    void require(bool holds, const std::string& promise) const;

private:
    void count_coordinator();

    Dice dice_;
    Disturbances disturbances_;
    Tally& tally_;
    Model model_;
    double now_ = 0;
    int64_t term_ = 0;
    std::unique_ptr<Coordinator> coordinator_;
    std::vector<std::function<bool(Coordinator&, double)>> late_copies_;  // each says whether it has an answer
    std::map<std::pair<int64_t, int64_t>, std::shared_ptr<SimulatedMesh>> meshes_;  // by term and roster
    State checkpoint_;
    DoneTask done_task_;
};

template <class Call>
auto World::ask(const Call& call) -> decltype(call(std::declval<Coordinator&>(), 0.0)) {
    if (happens(disturbances_.lost_calls)) {
        return std::nullopt;
    }
    if (happens(disturbances_.late_copies)) {
        late_copies_.emplace_back(
            [call](Coordinator& coordinator, double now) { return call(coordinator, now).has_value(); });
    }
    const bool answer_is_lost = happens(disturbances_.lost_calls);
    try {
        auto answer = call(*coordinator_, now_);
        return answer_is_lost ? std::nullopt : std::move(answer);
    } catch (const RosterChanged&) {
        if (answer_is_lost) {
            return std::nullopt;
        }
        throw;
    }
}

}  // namespace accrue::simulation
