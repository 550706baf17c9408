#include "accrue/train/team/worker_share.h"

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/dist/exchange_cost.h"
#include "accrue/model/parameters.h"

namespace accrue {

WorkerMemory memory_of_worker(const Settings& settings, const MemoryBound& machine, const ModelSpec& model,
                              const WorkerShare& share) {
    WorkerMemory memory{
        .part = budget_of(settings, machine),
        .exchange_bytes = cost_of_exchange(model.parameters().gradient_elements, share.workers).held_bytes};
    MemoryBound& part = memory.part;
    if (share.of_a_machine > 1) {
        part.bytes /= share.of_a_machine;
        part.reason =
            cat(part.reason, ", of which each of ", share.of_a_machine, " workers has ", format_bytes(part.bytes));
    }
    if (part.bytes <= memory.exchange_bytes) {
        throw Error(cat(part.reason, ", but the exchange of their sums alone takes ",
                        format_bytes(memory.exchange_bytes), " of each. Give more memory, or take fewer workers."));
    }
    return memory;
}

Settings settings_of_worker(Settings settings, const MemoryBound& machine, const ModelSpec& model,
                            const WorkerShare& share) {
    const WorkerMemory memory = memory_of_worker(settings, machine, model, share);
    const int64_t bytes = memory.part.bytes - memory.exchange_bytes;
    settings.compute.memory = ByteSize{.text = std::to_string(bytes), .bytes = bytes};
    settings.compute.threads = share.threads;
    return settings;
}

}  // namespace accrue
