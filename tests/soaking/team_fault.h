#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/soaking/dice.h"

namespace accrue::soaking {

// What may happen to a run that workers compute.
enum class TeamFault {
    kill_worker,
    kill_all_workers,
    freeze_worker,  // SIGSTOP, and SIGCONT after a moment
    lose_worker,    // SIGSTOP for longer than a worker may be silent
    freeze_leader,
    join,         // another worker comes
    kill_joiner,  // one that the leader did not start, and does not see ending
    kill_leader,  // all end, and the run is resumed
    stop_leader,  // SIGTERM or SIGINT
    // Of workers on machines of their own:
    cut_worker_briefly,  // its cable is pulled for less than it may be silent
    cut_worker,          // until the others have gone on without it
    cut_leader,          // for longer than anybody may be silent
};

// Something happens to a cable, for which workers need machines of their own.
[[nodiscard]] bool is_of_cables(TeamFault fault);

[[nodiscard]] std::string name_of(TeamFault fault);
[[nodiscard]] const std::vector<TeamFault>& all_team_faults();
// An error that says which there are, where none has that name.
[[nodiscard]] TeamFault team_fault_named(const std::string& name);

// When: after so many more steps, or while the workers start; and a moment after that.
struct TeamMoment {
    bool is_start = false;
    int64_t steps = 0;
    double seconds = 0;
};
[[nodiscard]] TeamMoment draw_moment(Dice& dice);

}  // namespace accrue::soaking
