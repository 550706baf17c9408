#include "accrue/kernels/cuda/driver_memory.h"

#include <array>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace accrue::cuda {
namespace {

// The functions of the driver's own library that are needed, looked up when the program runs: it comes with the driver, and
// its header with no package that the program could ask for. 0 is success everywhere.
struct Nvml {
    struct Memory {
        unsigned long long total = 0;
        unsigned long long free = 0;
        unsigned long long used = 0;
    };
    int (*init)() = nullptr;
    int (*by_bus_id)(const char* bus_id, void** device) = nullptr;
    int (*memory)(void* device, Memory* memory) = nullptr;

    template <class Function>
    static void find(void* library, const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(library, name));
    }
    static Nvml load() {
        Nvml nvml;
        if (void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL); library != nullptr) {
            find(library, "nvmlInit_v2", nvml.init);
            find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.by_bus_id);
            find(library, "nvmlDeviceGetMemoryInfo", nvml.memory);
        }
        const bool works = nvml.init != nullptr && nvml.by_bus_id != nullptr && nvml.memory != nullptr;
        return works && nvml.init() == 0 ? nvml : Nvml{};
    }
};

}  // namespace

std::optional<int64_t> used_bytes_of_gpu(int number) {
    static const Nvml nvml = Nvml::load();
    std::array<char, 32> bus_id{};
    void* device = nullptr;
    Nvml::Memory memory;
    // Both libraries number GPUs in their own way; the bus is the same.
    if (nvml.memory == nullptr || cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), number) != cudaSuccess ||
        nvml.by_bus_id(bus_id.data(), &device) != 0 || nvml.memory(device, &memory) != 0) {
        return std::nullopt;
    }
    return static_cast<int64_t>(memory.used);
}

}  // namespace accrue::cuda
