#include "tests/soaking/team_fault.h"

#include <map>

#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

const std::map<TeamFault, std::string>& team_names() {
    static const std::map<TeamFault, std::string> all = {
        {TeamFault::kill_worker, "kill-worker"},     {TeamFault::kill_all_workers, "kill-all-workers"},
        {TeamFault::freeze_worker, "freeze-worker"}, {TeamFault::lose_worker, "lose-worker"},
        {TeamFault::freeze_leader, "freeze-leader"}, {TeamFault::join, "join"},
        {TeamFault::kill_joiner, "kill-joiner"},     {TeamFault::kill_leader, "kill-leader"},
        {TeamFault::stop_leader, "stop-leader"},     {TeamFault::cut_worker_briefly, "cut-worker-briefly"},
        {TeamFault::cut_worker, "cut-worker"},       {TeamFault::cut_leader, "cut-leader"}};
    return all;
}

}  // namespace

bool is_of_cables(TeamFault fault) {
    return fault == TeamFault::cut_worker_briefly || fault == TeamFault::cut_worker || fault == TeamFault::cut_leader;
}

std::string name_of(TeamFault fault) {
    return team_names().at(fault);
}

// Those that take long, because somebody is waited for, come less often.
const std::vector<TeamFault>& all_team_faults() {
    static const std::vector<TeamFault> all = [] {
        std::vector<TeamFault> faults;
        for (const auto& [fault, name] : team_names()) {
            const bool takes_long = fault == TeamFault::lose_worker || fault == TeamFault::kill_joiner;
            faults.insert(faults.end(), takes_long ? 1 : 3, fault);
        }
        return faults;
    }();
    return all;
}

TeamFault team_fault_named(const std::string& name) {
    std::string known;
    for (const auto& [fault, text] : team_names()) {
        if (text == name) {
            return fault;
        }
        known += (known.empty() ? "" : ", ") + text;
    }
    throw Error(cat("--kinds: nothing named ", name, " happens to workers. There are: ", known, "."));
}

TeamMoment draw_moment(Dice& dice) {
    return {.is_start = dice.one_in(5),
            .steps = dice.between(0, 12),
            .seconds = static_cast<double>(dice.between(0, 60)) / 1000};
}

}  // namespace accrue::soaking
