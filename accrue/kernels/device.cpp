#include "accrue/kernels/device.h"

#include <cstdlib>

#include "accrue/kernels/cpu/cpu_kernels.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {

std::unique_ptr<Backing> make_backing(const DeviceChoice& device, int64_t bytes) {
    if (device.name.kind == DeviceKind::cuda) {
        return make_cuda_backing(device.name.gpu, bytes);
    }
    return std::getenv("ACCRUE_TEST_GUARDED_MEMORY") != nullptr ? make_guarded_backing(bytes)
                                                                : make_host_backing(bytes);
}

std::unique_ptr<Backing> make_host_part(const DeviceChoice& device, int64_t bytes, const LongWork& work) {
    if (bytes == 0) {
        return nullptr;
    }
    return device.name.kind == DeviceKind::cuda ? make_cuda_host_backing(device.name.gpu, bytes, work)
                                                : make_backing(device, bytes);
}

std::unique_ptr<Kernels> make_kernels(const DeviceChoice& device, Pool& pool, Arena& arena) {
    switch (device.name.kind) {
        case DeviceKind::cuda:
            return make_cuda_kernels(device.name.gpu, arena, device.graphs);
        case DeviceKind::reference:
            return make_reference_kernels(arena);
        default:
            return make_cpu_kernels(pool, arena, device.instruction_set);
    }
}

// The reference is planned like the cpu, so that a plan does not depend on which of them computes it.
std::unique_ptr<Workspace> make_workspace(const DeviceChoice& device, int threads) {
    return device.name.kind == DeviceKind::cuda ? make_cuda_workspace(device.name.gpu) : make_cpu_workspace(threads);
}

std::unique_ptr<Kernels> make_reference_kernels(Arena& arena) {
    return std::make_unique<ReferenceKernels>(arena);
}

std::unique_ptr<Kernels> make_cpu_kernels(Pool& pool, Arena& arena, const std::string& instruction_set) {
    return std::make_unique<CpuKernels>(pool, arena, cpu::instruction_set_named(instruction_set));
}

}  // namespace accrue
