#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "tests/simulated_gpu/runtime.h"
#include <sys/mman.h>

// The memory of the GPU, and pinned memory of the host.
namespace accrue::simulated {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// What CUDA takes of a card when it begins.
constexpr int64_t kContextBytes = 520 * kMiB;

int64_t used_bytes = properties().others_mib * kMiB + kContextBytes;
bool has_taken = false;
struct Taken {
    std::byte* pages;
    size_t bytes;
};
std::map<void*, Taken>& taken() {
    static std::map<void*, Taken> known;
    return known;
}

std::mutex memory_mutex;

}  // namespace
}  // namespace accrue::simulated

using namespace accrue::simulated;

extern "C" {

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    const std::lock_guard lock(memory_mutex);
    const int64_t all = properties().memory_mib * kMiB;
    *total = static_cast<size_t>(all);
    *free = static_cast<size_t>(std::max<int64_t>(0, all - used_bytes));
    return answer();
}

// Full of NaN where it begins (all of a large one would take long), and where it ends a page begins that nobody may touch.
cudaError_t cudaMalloc(void** result, size_t bytes) {
    const std::lock_guard lock(memory_mutex);
    constexpr size_t kAlignment = 256;
    constexpr size_t kPage = 4096;
    constexpr size_t kFilled = size_t{16} << 20;
    if (!std::exchange(has_taken, true)) {
        used_bytes += properties().taken_mib * kMiB;
    }
    const size_t wanted = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t whole = (wanted + kPage - 1) / kPage * kPage;
    if (used_bytes + static_cast<int64_t>(whole) > properties().memory_mib * kMiB) {
        return cudaErrorMemoryAllocation;
    }
    auto* const pages = static_cast<std::byte*>(
        mmap(nullptr, whole + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (pages == MAP_FAILED || mprotect(pages + whole, kPage, PROT_NONE) != 0) {
        return cudaErrorMemoryAllocation;
    }
    std::byte* const memory = pages + (whole - wanted);
    std::memset(memory, 0xff, std::min(wanted, kFilled));
    *result = memory;
    taken()[memory] = {.pages = pages, .bytes = whole + kPage};
    used_bytes += static_cast<int64_t>(whole);
    return answer();
}

cudaError_t cudaFree(void* memory) {
    const std::lock_guard lock(memory_mutex);
    const auto found = taken().find(memory);
    if (found != taken().end()) {
        const Taken& piece = found->second;
        munmap(piece.pages, piece.bytes);
        used_bytes -= static_cast<int64_t>(piece.bytes) - 4096;
        taken().erase(found);
    }
    return answer();
}

cudaError_t cudaHostAlloc(void** result, size_t bytes, unsigned int /*flags*/) {
    *result = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *result == nullptr ? cudaErrorMemoryAllocation : answer();
}

cudaError_t cudaMallocHost(void** result, size_t bytes) {
    return cudaHostAlloc(result, bytes, 0);
}

cudaError_t cudaFreeHost(void* memory) {
    std::free(memory);
    return answer();
}

cudaError_t cudaHostRegister(void* /*memory*/, size_t /*bytes*/, unsigned int /*flags*/) {
    return answer();
}

cudaError_t cudaHostUnregister(void* /*memory*/) {
    return answer();
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int /*flags*/) {
    *device = host;
    return answer();
}

}  // extern "C"
