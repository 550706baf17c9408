#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/dist/simulation/leader.h"
#include "accrue/dist/simulation/worker.h"
#include "accrue/dist/simulation/world.h"

namespace accrue::simulation {

// What may happen to a run.
enum class Event {
    join,
    kill,  // one worker, without a word
    kill_all,
    start_again,  // one that was killed, by its old name
    leave,
    sleep,
    cut_off,
    wish_to_stop,  // a worker
    ask_to_stop,   // the leader
    restart_coordinator,
};

// A run of up to five workers. In each turn one of them does one thing, and anything may go wrong: what, and how often, follows
// from the seed.
class SimulatedRun {
public:
    struct Plan {
        uint64_t seed = 0;
        int64_t disturbed_turns = 1500;   // then nothing goes wrong any more
        Mistake mistake = Mistake::none;  // of every second worker
    };
    SimulatedRun(const Plan& plan, Tally& tally);

    // To the end. Throws Broken if a promise is not kept, and what the coordinator throws.
    void run();

private:
    void take_turn();
    void disturb();
    void join(const std::string& name);
    void join() { join("w" + std::to_string(++names_)); }
    // One of them, without a word.
    std::string kill();
    void leave();
    [[nodiscard]] SimulatedWorker& any_worker();

    Plan plan_;
    World world_;
    Leader leader_;
    std::vector<Event> events_;  // that may happen
    std::vector<std::unique_ptr<SimulatedWorker>> workers_;
    int64_t names_ = 0;
};

}  // namespace accrue::simulation
