#pragma once

#include <cstdint>
#include <string>

#include "accrue/dist/simulation/world.h"

namespace accrue::simulation {

// Leads a run from one task to the next, up to its last step.
class Leader {
public:
    Leader(World& world, int64_t last_step) : world_(world), last_step_(last_step) {}

    // Sets the next task some time after one is done, and again where the coordinator knows of none.
    void act();
    [[nodiscard]] bool is_through() const { return is_through_; }

private:
    void set_task();

    World& world_;
    int64_t last_step_;
    int64_t step_ = 0;  // up to which the task goes
    int64_t term_ = 0;  // of the coordinator that has the task
    int64_t task_ = 0;  // its number there
    bool is_through_ = false;
};

}  // namespace accrue::simulation
