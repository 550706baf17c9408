#include "accrue/base/error.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/gpu_checks.h"
#include "accrue/kernels/gpus.h"

// What a program has that was built without CUDA: a plan for a GPU can still be made (cuda/cuda_workspace.cpp).
namespace accrue {
namespace {

constexpr const char* kWithoutCuda =
    "this program was built without CUDA: install a CUDA toolkit (12.4 or newer, nvcc on the PATH) and build it again";

[[noreturn]] void refuse(int number) {
    throw Error(cat("compute.device is \"", text_of(DeviceName(DeviceKind::cuda, number)), "\", but ", kWithoutCuda,
                    ", or use --set compute.device=cpu."));
}

}  // namespace

Gpus gpus_of_machine() {
    return {.found = {}, .why_none = kWithoutCuda};
}

std::optional<int> architecture_of_gpu(int /*number*/) {
    return {};
}

GpuSoftware gpu_software() {
    return {};
}

void require_gpu(int number) {
    refuse(number);
}

GpuMemory memory_of_gpu(int number) {
    refuse(number);
}

std::unique_ptr<Backing> make_cuda_backing(int gpu, int64_t /*bytes*/) {
    refuse(gpu);
}

std::unique_ptr<Backing> make_cuda_host_backing(int gpu, int64_t /*bytes*/, const LongWork& /*work*/) {
    refuse(gpu);
}

void enqueue_gpu_check(std::span<const int64_t> /*values*/, int64_t /*first*/, uint64_t /*seed*/, uint64_t* /*parts*/,
                       void* /*stream*/) {
    refuse(0);
}

std::unique_ptr<Kernels> make_cuda_kernels(int gpu, Arena& /*arena*/, DeviceChoice::Graphs /*graphs*/) {
    refuse(gpu);
}

}  // namespace accrue
