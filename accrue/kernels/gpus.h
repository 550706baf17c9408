#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accrue {

// An NVIDIA GPU of this machine.
struct Gpu {
    int number = 0;
    std::string name;
    int architecture = 0;  // 90 = sm_90
    int64_t memory_bytes = 0;
};

// Those that the driver shows to this process, in its order.
struct Gpus {
    std::vector<Gpu> found;
    std::string why_none;         // where there are none: the reason and what to do, without a full stop
    bool has_old_driver = false;  // which hides them
};
[[nodiscard]] Gpus gpus_of_machine();
// 90 = sm_90; nothing where this GPU is not there.
[[nodiscard]] std::optional<int> architecture_of_gpu(int number);

// What stands between this program and a GPU, for people and result files.
struct GpuSoftware {
    std::string cuda;           // the version it was built with, "13.0"; empty = built without CUDA
    std::string architectures;  // what it has code for: "sm_90"
    std::string library;        // of matrix products, as it runs: "cuBLASLt 13.1.0"
    std::string driver;         // "580.65.06", or "for CUDA 13.0" where it does not say; empty = there is none
};
[[nodiscard]] GpuSoftware gpu_software();

// An error that says what to do, unless this GPU is there and this program has code for it.
void require_gpu(int number);

// What a GPU's memory holds now.
struct GpuMemory {
    int64_t total_bytes = 0;
    int64_t free_bytes = 0;
    int64_t held_bytes = 0;     // by this process before it takes any: what CUDA needs for itself
    int64_t process_bytes = 0;  // by this process now, with what CUDA needs
};
[[nodiscard]] GpuMemory memory_of_gpu(int number);

}  // namespace accrue
