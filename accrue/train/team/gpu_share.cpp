#include "accrue/train/team/gpu_share.h"

#include <algorithm>
#include <cstdlib>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/dist/exchange_cost.h"
#include "accrue/dist/gpu_exchange.h"
#include "accrue/kernels/gpu_checks.h"
#include "accrue/kernels/gpus.h"
#include "accrue/model/parameters.h"
#include "accrue/train/engine.h"

namespace accrue {

std::vector<int> gpus_of_workers(const DeviceName& device) {
    std::vector<int> numbers;
    const Gpus gpus = gpus_of_machine();
    for (const Gpu& gpu : gpus.found) {
        const Gpu& first = gpus.found.front();
        if (device.gpu == 0 && gpu.name == first.name && gpu.architecture == first.architecture) {
            numbers.push_back(gpu.number);
        }
    }
    return numbers.empty() ? std::vector<int>{device.gpu} : numbers;
}

int64_t workers_on_a_gpu(const DeviceName& device, int64_t workers) {
    const auto gpus = std::ssize(gpus_of_workers(device));
    return (workers + gpus - 1) / gpus;
}

MemoryBound share_of_gpu(const DeviceName& device, int64_t workers, MemoryBound budget) {
    const int64_t sharers = workers_on_a_gpu(device, workers);
    const int64_t leader = gpu_bytes_beside_an_arena(device);
    budget.bytes = std::max<int64_t>(0, budget.bytes - leader) / sharers;
    budget.address_bytes = budget.bytes;
    budget.reason = cat(budget.reason, ", of which the run's leader has ", format_bytes(leader), " and each of ",
                        sharers, " worker(s) on it ", format_bytes(budget.bytes));
    return budget;
}

MemoryBound share_of_gpus(const Settings& settings, int64_t workers) {
    const DeviceName device = device_of(settings.compute).name;
    MemoryBound least;
    for (const int gpu : gpus_of_workers(device)) {
        MemoryBound memory = memory_of_device({DeviceKind::cuda, gpu});
        if (least.reason.empty() || memory.bytes < least.bytes) {
            least = std::move(memory);
        }
    }
    return share_of_gpu(device, workers, budget_of(settings, least));
}

void require_host_room(const ModelSpec& model, int64_t workers) {
    constexpr int64_t kSeveral = 2;  // as much as for any other number
    const int64_t each = cost_of_exchange(model.parameters().gradient_elements, kSeveral).held_bytes;
    const MemoryBound machine = memory_of_machine();
    if (machine.bytes / workers <= each) {
        throw Error(cat(machine.reason, ", but the exchange of sums between GPUs passes through it, and takes ",
                        format_bytes(each), " for each of ", workers,
                        " worker(s). Take fewer workers on this machine."));
    }
}

bool can_exchange_on_gpus(const Settings& settings, int64_t workers) {
    const bool have_their_own =
        workers_on_a_gpu(device_of(settings.compute).name, workers) == 1 || std::getenv(kTestSharedNccl) != nullptr;
    return have_their_own && settings.compute.host_state != HostState::sums && why_no_nccl().empty();
}

int64_t gpu_exchange_room_of(const ModelSpec& model) {
    return gpu_exchange_room(model.parameters().gradient_elements, kGpuCheckParts);
}

int64_t gpu_exchange_bytes(const ModelSpec& model) {
    return gpu_exchange_room_of(model) + kNcclBytes;
}

int GpuPlaces::place_of(const std::string& worker, const std::vector<std::string>& living) {
    if (const auto known = places_.find(worker); known != places_.end()) {
        return known->second;
    }
    const auto sharers = [&](int gpu) {
        return std::ranges::count_if(living, [&](const std::string& other) {
            const auto place = places_.find(other);
            return other != worker && place != places_.end() && place->second == gpu;
        });
    };
    return places_[worker] = *std::ranges::min_element(gpus_, {}, sharers);
}

}  // namespace accrue
