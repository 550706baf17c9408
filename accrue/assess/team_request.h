#pragma once

#include <cstdint>
#include <optional>

#include "accrue/dist/exchange_cost.h"
#include "accrue/train/settings.h"
#include "accrue/train/team/worker_share.h"

namespace accrue {

// Several workers, of which `accrue plan` and `accrue advise` are asked.
struct TeamRequest {
    int64_t workers = 1;
    // Bits a second: each worker is a machine like this one, with a link of its own. Nothing: processes of this machine.
    std::optional<double> link = {};
};

// What each of them computes with, as accrue train --workers shares it out.
[[nodiscard]] WorkerShare share_of(const TeamRequest& team, const Settings& settings);
// How many times as long each takes to compute as it would alone, because the machine has fewer threads than they have together.
[[nodiscard]] double crowding_of(const TeamRequest& team, const Settings& settings);
// How long an exchange of so many of them takes, with what lies between them. `threads`: of a machine.
[[nodiscard]] double exchange_seconds_of(const TeamRequest& team, const ExchangeCost& cost, int64_t threads);
// Of a machine, by compute.threads.
[[nodiscard]] int64_t threads_of(const Settings& settings);
// How many grains of a window the worker has that has most.
[[nodiscard]] double grains_of_each(double window_grains, int64_t workers);

}  // namespace accrue
