#pragma once

#include <cstdint>
#include <optional>

#include "accrue/dist/exchange_cost.h"
#include "accrue/model/model_spec.h"
#include "accrue/train/memory_budget.h"
#include "accrue/train/settings.h"

namespace accrue {

// Several workers, of which `accrue plan` and `accrue advise` are asked.
struct TeamRequest {
    int64_t workers = 1;
    // Bits a second: each worker is a machine like this one, with a link of its own. Nothing: processes of this machine.
    std::optional<double> link = {};
};

// What each of them computes with.
struct TeamShare {
    int64_t of_a_machine = 1;  // workers on one machine
    int64_t threads = 1;       // of each worker
};
// As accrue train --workers shares it out.
[[nodiscard]] TeamShare share_of(const TeamRequest& team, const Settings& settings);
// What each may hold of its machine's memory, with what an exchange takes; the reason says all of it.
[[nodiscard]] MemoryBound memory_of_worker(const TeamRequest& team, const Settings& settings,
                                           const MemoryBound& machine);
// The settings by which each plans, as its leader would give them. An Error if an exchange alone fills its memory.
[[nodiscard]] Settings settings_of_worker(const TeamRequest& team, const Settings& settings, const MemoryBound& machine,
                                          const ModelSpec& model);
// Bytes of the memory that they plan for which an exchange takes of each: of the processor's, or of a GPU's, where sums need not leave
// it.
[[nodiscard]] int64_t exchange_bytes_of(const TeamRequest& team, const Settings& settings, const ModelSpec& model);
// How many times as long each takes to compute as it would alone, because the machine has fewer threads than they have together,
// or fewer GPUs.
[[nodiscard]] double crowding_of(const TeamRequest& team, const Settings& settings);
// How long an exchange of so many of them takes, with what lies between them. `threads`: of a machine.
[[nodiscard]] double exchange_seconds_of(const TeamRequest& team, const ExchangeCost& cost, int64_t threads);
// Of a machine, by compute.threads.
[[nodiscard]] int64_t threads_of(const Settings& settings);
// How many grains of a window the worker has that has most.
[[nodiscard]] double grains_of_each(double window_grains, int64_t workers);

}  // namespace accrue
