#include "accrue/kernels/cuda/driver_memory.h"

#include <array>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

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
    struct Process {
        unsigned int pid = 0;
        unsigned long long used = 0;
        unsigned int gpu_instance = 0;
        unsigned int compute_instance = 0;
    };
    int (*init)() = nullptr;
    int (*by_bus_id)(const char* bus_id, void** device) = nullptr;
    int (*memory)(void* device, Memory* memory) = nullptr;
    int (*processes)(void* device, unsigned int* count, Process* processes) = nullptr;
    int (*version)(char* text, unsigned int length) = nullptr;

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
            find(library, "nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes);
            find(library, "nvmlSystemGetDriverVersion", nvml.version);
        }
        const bool works = nvml.init != nullptr && nvml.by_bus_id != nullptr && nvml.memory != nullptr;
        return works && nvml.init() == 0 ? nvml : Nvml{};
    }
    // Both libraries number GPUs in their own way; the bus is the same. Null where there is no such GPU.
    [[nodiscard]] void* device(int number) const {
        std::array<char, 32> bus_id{};
        void* device = nullptr;
        const bool is_known = memory != nullptr &&
                              cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), number) == cudaSuccess &&
                              by_bus_id(bus_id.data(), &device) == 0;
        return is_known ? device : nullptr;
    }
};

const Nvml& nvml() {
    static const Nvml loaded = Nvml::load();
    return loaded;
}

}  // namespace

std::optional<std::string> driver_version() {
    std::array<char, 96> text{};
    const bool is_told = nvml().version != nullptr && nvml().version(text.data(), text.size()) == 0;
    return is_told ? std::optional<std::string>(text.data()) : std::nullopt;
}

std::optional<int64_t> used_bytes_of_gpu(int number) {
    void* const device = nvml().device(number);
    Nvml::Memory memory;
    if (device == nullptr || nvml().memory(device, &memory) != 0) {
        return std::nullopt;
    }
    return static_cast<int64_t>(memory.used);
}

std::optional<int64_t> used_bytes_of_process(int number) {
    constexpr unsigned long long kNotTold = ~0ULL;
    void* const device = nvml().device(number);
    std::array<Nvml::Process, 256> processes;
    auto count = static_cast<unsigned int>(processes.size());
    if (device == nullptr || nvml().processes == nullptr || nvml().processes(device, &count, processes.data()) != 0) {
        return std::nullopt;
    }
    const auto own = static_cast<unsigned int>(::getpid());
    for (unsigned int i = 0; i < count; ++i) {
        if (processes.at(i).pid == own && processes.at(i).used != kNotTold) {
            return static_cast<int64_t>(processes.at(i).used);
        }
    }
    return std::nullopt;
}

}  // namespace accrue::cuda
