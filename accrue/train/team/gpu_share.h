#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "accrue/model/model_spec.h"
#include "accrue/train/memory_budget.h"

namespace accrue {

// How workers of one machine share its GPUs out. Who shares decides no bit: GPUs of one kind have the same ones.

// The GPUs on which they compute, in turns: where the device is the first one, all that are of its kind, else the one that is
// named. Where no GPU is, the named one, for which a plan may be made.
[[nodiscard]] std::vector<int> gpus_of_workers(const DeviceName& device);
// As many as the GPU has that has most.
[[nodiscard]] int64_t workers_on_a_gpu(const DeviceName& device, int64_t workers);

// What each of so many workers may hold of its GPU. `budget`: of one GPU, with what the leader's process holds there itself.
[[nodiscard]] MemoryBound share_of_gpu(const DeviceName& device, int64_t workers, MemoryBound budget);
// The same of the GPUs as they are now, within compute.memory, which holds for each of them.
[[nodiscard]] MemoryBound share_of_gpus(const Settings& settings, int64_t workers);

// What workers exchange passes through the machine's memory, of which so many of them take a part: an Error if there is too little.
void require_host_room(const ModelSpec& model, int64_t workers);

// Whether workers of this machine can exchange sums from GPU to GPU: each has one of its own, and NCCL is here.
[[nodiscard]] bool can_exchange_on_gpus(const Settings& settings, int64_t workers);
// Bytes of a GPU that this takes of each, and how much of it is for the exchange itself.
[[nodiscard]] int64_t gpu_exchange_bytes(const ModelSpec& model);
[[nodiscard]] int64_t gpu_exchange_room_of(const ModelSpec& model);

// For tests: workers that share a GPU use NCCL too, each as if it were on a machine of its own.
inline constexpr const char* kTestSharedNccl = "ACCRUE_TEST_SHARED_NCCL";

// Which worker has which GPU: whoever comes takes the one that fewest of the living have.
class GpuPlaces {
public:
    explicit GpuPlaces(std::vector<int> gpus) : gpus_(std::move(gpus)) {}
    // `living`: workers that are known to be there. Who asks again gets the same.
    [[nodiscard]] int place_of(const std::string& worker, const std::vector<std::string>& living);

private:
    std::vector<int> gpus_;
    std::map<std::string, int> places_;
};

}  // namespace accrue
