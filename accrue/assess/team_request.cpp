#include "accrue/assess/team_request.h"

#include <algorithm>
#include <cmath>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/pool.h"
#include "accrue/train/engine.h"
#include "accrue/train/team/gpu_share.h"
#include "accrue/train/team/state_sharing.h"
#include "accrue/train/team/worker_share.h"

namespace accrue {

int64_t threads_of(const Settings& settings) {
    return Pool(static_cast<int>(settings.compute.threads)).threads();
}

TeamShare share_of(const TeamRequest& team, const Settings& settings) {
    const int64_t threads = threads_of(settings);
    const int64_t of_a_machine = team.link ? 1 : team.workers;
    return {.of_a_machine = of_a_machine, .threads = std::max<int64_t>(1, threads / of_a_machine)};
}

namespace {

bool are_on_gpus_of_this_machine(const TeamRequest& team, const Settings& settings) {
    return !team.link && device_of(settings.compute).name.kind == DeviceKind::cuda;
}

bool exchange_on_gpus(const TeamRequest& team, const Settings& settings) {
    return team.workers > 1 && device_of(settings.compute).name.kind == DeviceKind::cuda &&
           can_exchange_on_gpus(settings, share_of(team, settings).of_a_machine);
}

}  // namespace

MemoryBound memory_of_worker(const TeamRequest& team, const Settings& settings, const MemoryBound& machine) {
    MemoryBound part = budget_of(settings, machine);
    if (are_on_gpus_of_this_machine(team, settings)) {
        return share_of_gpu(device_of(settings.compute).name, team.workers, std::move(part));
    }
    if (const int64_t workers = share_of(team, settings).of_a_machine; workers > 1) {
        part.bytes /= workers;
        part.reason = cat(part.reason, ", of which each of ", workers, " workers has ", format_bytes(part.bytes));
    }
    return part;
}

Settings settings_of_worker(const TeamRequest& team, const Settings& settings, const MemoryBound& machine,
                            const ModelSpec& model) {
    const MemoryBound part = memory_of_worker(team, settings, machine);
    return settings_within({.bytes = part.bytes,
                            .threads = share_of(team, settings).threads,
                            .sharing = sharing_of(settings, team.workers),
                            .reason = part.reason,
                            .exchanges_on_gpu = exchange_on_gpus(team, settings)},
                           settings, model);
}

int64_t exchange_bytes_of(const TeamRequest& team, const Settings& settings, const ModelSpec& model) {
    if (device_of(settings.compute).name.kind != DeviceKind::cuda) {
        return exchange_of(settings, model, team.workers).held_bytes;
    }
    return exchange_on_gpus(team, settings) ? gpu_exchange_bytes(model) : 0;
}

double crowding_of(const TeamRequest& team, const Settings& settings) {
    if (are_on_gpus_of_this_machine(team, settings)) {
        return static_cast<double>(workers_on_a_gpu(device_of(settings.compute).name, team.workers));
    }
    const TeamShare share = share_of(team, settings);
    const auto wanted = static_cast<double>(share.of_a_machine * share.threads);
    return std::max(1.0, wanted / static_cast<double>(threads_of(settings)));
}

double exchange_seconds_of(const TeamRequest& team, const ExchangeCost& cost, int64_t threads) {
    return team.link ? seconds_over_link(cost, *team.link) : seconds_over_loopback(cost, threads);
}

double grains_of_each(double window_grains, int64_t workers) {
    return workers > 1 ? std::ceil(window_grains / static_cast<double>(workers)) : window_grains;
}

}  // namespace accrue
