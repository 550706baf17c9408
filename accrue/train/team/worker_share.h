#pragma once

#include <cstdint>

#include "accrue/model/model_spec.h"
#include "accrue/train/memory_budget.h"
#include "accrue/train/settings.h"

namespace accrue {

// How a run's workers share out what they compute with.
struct WorkerShare {
    int64_t workers = 1;       // whose sums are added up
    int64_t of_a_machine = 1;  // of them on one machine
    int64_t threads = 1;       // of each
};

// What each worker may hold of its machine's memory. The reason of its part says all of it.
struct WorkerMemory {
    MemoryBound part;
    int64_t exchange_bytes = 0;  // of that, for an exchange of sums
};
// Of what its machine can give. An Error if the exchange alone fills it.
[[nodiscard]] WorkerMemory memory_of_worker(const Settings& settings, const MemoryBound& machine,
                                            const ModelSpec& model, const WorkerShare& share);
// The settings as a worker gets them: its threads, and the memory that its plan may take.
[[nodiscard]] Settings settings_of_worker(Settings settings, const MemoryBound& machine, const ModelSpec& model,
                                          const WorkerShare& share);

}  // namespace accrue
