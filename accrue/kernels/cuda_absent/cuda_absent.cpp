#include "accrue/base/error.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/gpus.h"

// What a program has that was built without CUDA: a plan for a GPU can still be made (cuda/cuda_workspace.cpp).
namespace accrue {
namespace {

constexpr const char* kWithoutCuda =
    "this program was built without CUDA: install a CUDA toolkit (12.4 or newer, nvcc on the PATH) and build it again";

[[noreturn]] void refuse() {
    throw Error(cat("compute.device is a GPU, but ", kWithoutCuda, ", or use --set compute.device=cpu."));
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

void require_gpu(int /*number*/) {
    refuse();
}

GpuMemory memory_of_gpu(int /*number*/) {
    refuse();
}

std::unique_ptr<Backing> make_cuda_backing(int /*gpu*/, int64_t /*bytes*/) {
    refuse();
}

std::unique_ptr<Backing> make_cuda_host_backing(int /*gpu*/, int64_t /*bytes*/, const LongWork& /*work*/) {
    refuse();
}

std::unique_ptr<Kernels> make_cuda_kernels(int /*gpu*/, Arena& /*arena*/, DeviceChoice::Graphs /*graphs*/) {
    refuse();
}

}  // namespace accrue
