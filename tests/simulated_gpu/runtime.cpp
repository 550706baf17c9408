#include "tests/simulated_gpu/runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/simulated_gpu/threads.h"

#include "accrue/base/random.h"
#include "accrue/kernels/cuda/kernel_entry.h"

struct CUstream_st {
    uint64_t order = 0;
    std::vector<std::function<void()>> queue = {};
    CUgraph_st* recording = nullptr;
    std::atomic<int> holds = 0;
};
struct CUgraph_st {
    std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
    std::vector<std::function<void()>> work;
};
struct CUevent_st {
    CUstream_st* stream = nullptr;
    bool is_timed = false;
};

namespace accrue::simulated {
namespace {

// There is one GPU, and one block of it runs at a time.
std::recursive_mutex mutex;

using Call = void (*)(const void* kernel, const void* args);
struct Kernel {
    Call call;
    size_t argument_bytes;
};
std::map<const void*, Kernel>& known_kernels() {
    static std::map<const void*, Kernel> known;
    return known;
}

int64_t graphs_run = 0;
int64_t kernels_run = 0;
uint64_t events_timed = 0;
uint64_t order_of_streams = properties().order;
constexpr size_t kSharedWithoutAsking = 48 * 1024;
constexpr int kMultiprocessors = 34;
// Of a block, for kernels that asked for more than the usual.
std::map<const void*, size_t>& allowed_shared_bytes() {
    static std::map<const void*, size_t> allowed;
    return allowed;
}
size_t most_shared_bytes() {
    const int architecture = properties().architecture;
    return (architecture == 90 ? 227 : architecture == 80 ? 163 : 99) * size_t{1024};
}

// What a GPU takes of blocks, threads and shared memory.
bool is_launchable(const void* kernel, const dim3& grid, const dim3& block, size_t shared_bytes) {
    const auto asked = allowed_shared_bytes().find(kernel);
    const size_t most = asked == allowed_shared_bytes().end() ? kSharedWithoutAsking : asked->second;
    return grid.x > 0 && grid.x <= 0x7fffffffU && grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535 &&
           block.x > 0 && block.x <= 1024 && block.y == 1 && block.z == 1 && shared_bytes <= most;
}

bool is_lost() {
    return properties().lost_after >= 0 && kernels_run >= properties().lost_after;
}

void run_queue(CUstream_st& stream) {
    // What runs may put nothing on the stream.
    const std::vector<std::function<void()>> queue = std::move(stream.queue);
    stream.queue.clear();
    for (const auto& work : queue) {
        if (!is_lost()) {
            work();
        }
    }
}

void say_what_it_did() {
    std::fprintf(stderr, "simulated GPU: %lld kernels, %lld graphs\n", static_cast<long long>(kernels_run),
                 static_cast<long long>(graphs_run));
}

template <class Number>
bool read(std::string_view text, std::string_view name, Number& number) {
    if (!text.starts_with(name) || text.size() <= name.size() || text[name.size()] != '=') {
        return false;
    }
    text.remove_prefix(name.size() + 1);
    return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
}

Properties properties_of_environment() {
    Properties result;
    const char* const found = std::getenv("ACCRUE_SIMULATED_GPU");
    std::string_view text = found == nullptr ? "" : found;
    while (!text.empty()) {
        const std::string_view one = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), one.size() + 1));
        if (!read(one, "count", result.count) && !read(one, "architecture", result.architecture) &&
            !read(one, "driver", result.driver) && !read(one, "memory_mib", result.memory_mib) &&
            !read(one, "others_mib", result.others_mib) && !read(one, "taken_mib", result.taken_mib) &&
            !read(one, "order", result.order) && !read(one, "lost_after", result.lost_after) &&
            !read(one, "killed_after", result.killed_after) && !read(one, "has_code", result.has_code) &&
            !read(one, "report", result.report) && !read(one, "nccl", result.nccl) &&
            !read(one, "nccl_damage", result.nccl_damage)) {
            std::fprintf(stderr, "ACCRUE_SIMULATED_GPU has no \"%.*s\"\n", static_cast<int>(one.size()), one.data());
            std::abort();
        }
    }
    if (result.report != 0) {
        std::atexit(say_what_it_did);
    }
    return result;
}

}  // namespace

const Properties& properties() {
    static const Properties read_once = properties_of_environment();
    return read_once;
}

cudaError_t answer() {
    const std::lock_guard lock(mutex);
    return is_lost() ? cudaErrorECCUncorrectable : cudaSuccess;
}

void hold(cudaStream_t stream) {
    ++stream->holds;
}

void release(cudaStream_t stream) {
    --stream->holds;
}

void set_order(uint64_t seed) {
    order_of_streams = seed;
}

void remember(const void* kernel, Call call, size_t argument_bytes) {
    const std::lock_guard lock(mutex);
    known_kernels()[kernel] = {.call = call, .argument_bytes = argument_bytes};
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
    const std::lock_guard lock(mutex);
    if (stream->recording != nullptr) {
        stream->recording->work.push_back(std::move(work));
    } else {
        stream->queue.push_back(std::move(work));
    }
}

}  // namespace accrue::simulated

using namespace accrue::simulated;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    if (properties().driver == 0 || properties().driver < CUDART_VERSION / 1000 * 1000) {
        *count = 0;
        return cudaErrorInsufficientDriver;
    }
    *count = properties().count;
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
    *version = properties().driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return device < properties().count ? answer() : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* result, int device) {
    *result = {};
    result->uuid.bytes[0] = static_cast<char>(1 + device);
    std::snprintf(result->name, sizeof(result->name), "simulated GPU");
    result->major = properties().architecture / 10;
    result->minor = properties().architecture % 10;
    result->totalGlobalMem = static_cast<size_t>(properties().memory_mib) << 20;
    result->multiProcessorCount = kMultiprocessors;
    return answer();
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int /*device*/) {
    switch (what) {
        case cudaDevAttrComputeCapabilityMajor:
            *value = properties().architecture / 10;
            return answer();
        case cudaDevAttrComputeCapabilityMinor:
            *value = properties().architecture % 10;
            return answer();
        case cudaDevAttrMultiProcessorCount:
            *value = kMultiprocessors;
            return answer();
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(most_shared_bytes());
            return answer();
        default:
            return cudaErrorInvalidValue;
    }
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
    std::snprintf(text, static_cast<size_t>(bytes), "simulated:%d", device);
    return cudaErrorInvalidDevice;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int /*flags*/) {
    *stream = new CUstream_st{.order = order_of_streams};
    return answer();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const std::lock_guard lock(mutex);
    run_queue(*stream);
    return answer();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    if (stream->holds > 0) {
        return cudaErrorNotReady;
    }
    return cudaStreamSynchronize(stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const std::lock_guard lock(mutex);
    run_queue(*stream);
    delete stream;
    return answer();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
    enqueue(stream, [=] { std::memcpy(to, from, bytes); });
    return answer();
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
    enqueue(stream, [=] { std::memset(memory, value, bytes); });
    return answer();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    *event = new CUevent_st{.is_timed = (flags & cudaEventDisableTiming) == 0};
    return answer();
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return answer();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    event->stream = stream;
    return answer();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const std::lock_guard lock(mutex);
    if (event->stream != nullptr) {
        run_queue(*event->stream);
    }
    return answer();
}

// Any time: what is chosen by times must not change a bit.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*start*/, cudaEvent_t end) {
    const std::lock_guard lock(mutex);
    *milliseconds = 1 + accrue::uniform(accrue::mix(properties().order + 1, ++events_timed));
    return end->is_timed ? answer() : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
    stream->recording = new CUgraph_st;
    return answer();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    *graph = std::exchange(stream->recording, nullptr);
    return answer();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* result, cudaGraph_t graph, unsigned long long /*flags*/) {
    *result = new CUgraphExec_st{.work = graph->work};
    return answer();
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return answer();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    return answer();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    ++graphs_run;
    for (const auto& work : graph->work) {
        enqueue(stream, work);
    }
    return answer();
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute what, int value) {
    const std::lock_guard lock(mutex);
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize || static_cast<size_t>(value) > most_shared_bytes()) {
        return cudaErrorInvalidValue;
    }
    size_t& most = allowed_shared_bytes()[kernel];
    most = std::max(most, static_cast<size_t>(value));
    return answer();
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
    *attributes = {};
    return properties().has_code == 0 ? cudaErrorNoKernelImageForDevice : answer();
}

// The arguments are copied now, as a GPU's driver does.
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                             cudaStream_t stream) {
    const std::lock_guard lock(mutex);
    const auto found = known_kernels().find(kernel);
    if (found == known_kernels().end() || !is_launchable(kernel, grid, block, shared_bytes)) {
        return cudaErrorInvalidValue;
    }
    const auto* const first = static_cast<const std::byte*>(args[0]);
    std::vector<std::byte> bytes(first, first + found->second.argument_bytes);
    const Extent blocks{.x = grid.x, .y = grid.y, .z = grid.z};
    enqueue(stream, [=, order = stream->order, call = found->second.call, bytes = std::move(bytes)] {
        if (++kernels_run == properties().killed_after) {
            ::raise(SIGKILL);
        }
        run_blocks(blocks, block.x, static_cast<uint32_t>(shared_bytes), order, [&] { call(kernel, bytes.data()); });
    });
    return answer();
}

cudaError_t cudaGetLastError() {
    return answer();
}

const char* cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation     ? "cudaErrorMemoryAllocation"
           : error == cudaErrorECCUncorrectable   ? "cudaErrorECCUncorrectable"
           : error == cudaErrorInvalidDevice      ? "cudaErrorInvalidDevice"
           : error == cudaErrorInvalidValue       ? "cudaErrorInvalidValue"
           : error == cudaErrorInsufficientDriver ? "cudaErrorInsufficientDriver"
                                                  : "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation     ? "out of memory"
           : error == cudaErrorECCUncorrectable   ? "uncorrectable ECC error encountered"
           : error == cudaErrorInvalidDevice      ? "invalid device ordinal"
           : error == cudaErrorInvalidValue       ? "invalid argument"
           : error == cudaErrorInsufficientDriver ? "CUDA driver version is insufficient for CUDA runtime version"
                                                  : "unknown error";
}

}  // extern "C"
