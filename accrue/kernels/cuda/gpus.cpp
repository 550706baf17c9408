#include "accrue/kernels/gpus.h"

#include <map>
#include <mutex>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "accrue/base/error.h"
#include "accrue/kernels/cuda/cuda_error.h"
#include "accrue/kernels/cuda/driver_memory.h"
#include "accrue/kernels/cuda/probe_kernel.h"
#include "accrue/kernels/device_kind.h"

namespace accrue {
namespace {

using cuda::require;

// The first whose tensor cores know bf16 and whose copies to shared memory run beside a thread.
constexpr int kOldestArchitecture = 80;

std::string version_text(int version) {
    return cat(version / 1000, '.', version % 1000 / 10);
}

int driver_version() {
    int version = 0;
    cudaDriverGetVersion(&version);
    return version;
}

std::string reason_of(cudaError_t result) {
    const int driver = driver_version();
    if (driver == 0) {
        return "no NVIDIA driver was found (where there is one, nvidia-smi shows it): install the driver, or start the "
               "container with its GPUs (--gpus all)";
    }
    if (result == cudaErrorInsufficientDriver) {
        return cat("the NVIDIA driver is too old: it knows CUDA ", version_text(driver),
                   ", and this program was built with ", version_text(CUDART_VERSION),
                   ": install a newer driver, or build with an older toolkit (12.4 or newer)");
    }
    if (result == cudaSuccess || result == cudaErrorNoDevice) {
        return "the driver shows no GPU to this process (CUDA_VISIBLE_DEVICES may hide them)";
    }
    return cat("the driver says \"", cudaGetErrorString(result), "\" (", cudaGetErrorName(result),
               "): nvidia-smi may tell more");
}

// A GPU when this process began to use it.
struct Beginning {
    int64_t used_before = 0;  // by all others; 0 where nobody tells
    int64_t held = 0;         // what CUDA took, which it keeps
};

const Beginning& beginning_of(int number) {
    static std::mutex mutex;
    static std::map<int, Beginning> known;
    const std::lock_guard lock(mutex);
    const auto found = known.find(number);
    if (found != known.end()) {
        return found->second;
    }
    const auto before = cuda::used_bytes_of_gpu(number);
    require(cudaSetDevice(number), "beginning");
    require(cudaFree(nullptr), "beginning");
    const auto after = cuda::used_bytes_of_gpu(number);
    // Where the driver does not tell, what was seen on the largest cards.
    constexpr int64_t kUsual = int64_t{520} << 20;
    const bool is_told = before && after && *after > *before;
    // The whole card's memory also grows by what others take meanwhile.
    const auto own = cuda::used_bytes_of_process(number);
    return known
        .emplace(number, Beginning{.used_before = before.value_or(0),
                                   .held = own.value_or(is_told ? *after - *before : kUsual)})
        .first->second;
}

std::string library_text() {
    try {
        const size_t version = cublasLtGetVersion();
        return cat("cuBLASLt ", version / 10000, '.', version / 100 % 100, '.', version % 100);
    } catch (const Error&) {
        return "no cuBLASLt";
    }
}

}  // namespace

Gpus gpus_of_machine() {
    int count = 0;
    const cudaError_t result = cudaGetDeviceCount(&count);
    if (result != cudaSuccess || count == 0) {
        cudaGetLastError();
        return {.found = {},
                .why_none = reason_of(result),
                .has_old_driver = result == cudaErrorInsufficientDriver && driver_version() != 0};
    }
    Gpus gpus;
    for (int number = 0; number < count; ++number) {
        cudaDeviceProp properties{};
        require(cudaGetDeviceProperties(&properties, number), "asking for its name");
        gpus.found.push_back({.number = number,
                              .name = properties.name,
                              .architecture = 10 * properties.major + properties.minor,
                              .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)});
    }
    return gpus;
}

std::optional<int> architecture_of_gpu(int number) {
    int major = 0;
    int minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number) != cudaSuccess) {
        cudaGetLastError();
        return {};
    }
    return 10 * major + minor;
}

GpuSoftware gpu_software() {
    int known = 0;
    cudaDriverGetVersion(&known);
    const std::string told = known == 0 ? "" : cuda::driver_version().value_or(cat("for CUDA ", version_text(known)));
    return {.cuda = version_text(CUDART_VERSION),
            .architectures = cuda::architectures_with_code(),
            .library = known == 0 ? "" : library_text(),
            .driver = told};
}

void require_gpu(int number) {
    const Gpus gpus = gpus_of_machine();
    if (gpus.found.empty()) {
        throw Error(cat("compute.device is \"", text_of(DeviceName(DeviceKind::cuda, number)), "\", but ",
                        gpus.why_none, ", or use --set compute.device=cpu."));
    }
    if (number >= std::ssize(gpus.found)) {
        throw Error(cat("compute.device is \"cuda:", number, "\", but this process sees ", gpus.found.size(),
                        " GPU(s): cuda:0", gpus.found.size() > 1 ? cat(" to cuda:", gpus.found.size() - 1) : "",
                        ". Choose one of them (CUDA_VISIBLE_DEVICES may hide others)."));
    }
    const Gpu& gpu = gpus.found[static_cast<size_t>(number)];
    if (gpu.architecture < kOldestArchitecture) {
        throw Error(cat(gpu.name, " (sm_", gpu.architecture, ") is too old for this program: it needs sm_",
                        kOldestArchitecture, " or newer (Ampere, of 2020). Use --set compute.device=cpu."));
    }
    if (!cuda::has_code_for(number)) {
        throw Error(cat("this program has no code for ", gpu.name, " (sm_", gpu.architecture, "). It was built for ",
                        cuda::architectures_with_code(),
                        ". Build it on this machine, or with ACCRUE_CUDA_ARCHITECTURES=", gpu.architecture,
                        ", or use --set compute.device=cpu."));
    }
    (void)cublasLtGetVersion();  // an error without the library
}

GpuMemory memory_of_gpu(int number) {
    const Beginning& beginning = beginning_of(number);
    require(cudaSetDevice(number), "beginning");
    size_t free = 0;
    size_t total = 0;
    require(cudaMemGetInfo(&free, &total), "asking for its free memory");
    const auto used = static_cast<int64_t>(total - free);
    return {.total_bytes = static_cast<int64_t>(total),
            .free_bytes = static_cast<int64_t>(free),
            .held_bytes = beginning.held,
            .process_bytes = cuda::used_bytes_of_process(number).value_or(used - beginning.used_before)};
}

}  // namespace accrue
