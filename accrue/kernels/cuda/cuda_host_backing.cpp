#include <cuda_runtime_api.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/kernels/cuda/cuda_error.h"
#include "accrue/kernels/device.h"

namespace accrue {
namespace {

[[noreturn]] void refuse(int gpu, int64_t bytes, const std::string& why) {
    throw Error(cat("the host's memory cannot give cuda:", gpu, " the ", format_bytes(bytes),
                    " that compute.host_state keeps there: ", why,
                    ". Such memory stays where it is and is never swapped: free some (free -h, the limits of control "
                    "groups, ulimit -l), let less state lie there (compute.host_state), or make it smaller "
                    "(optimizer.moments, which changes the result)."));
}

// Memory of the host that stays in its place, so that a GPU reads and writes it over the bus, at the same addresses. In one
// piece, there from the beginning to the end: what is not there shows before a run.
class CudaHostBacking final : public Backing {
public:
    CudaHostBacking(int gpu, int64_t bytes, const LongWork& work) : gpu_(gpu), memory_(make_host_backing(bytes)) {
        // By all threads, and counted: to fix pages that are there already is the small part of the time.
        memory_->touch(capacity_of(*memory_), work);
        cuda::require(cudaSetDevice(gpu), "beginning");
        const cudaError_t result = cudaHostRegister(memory_->base(), static_cast<size_t>(capacity_of(*memory_)),
                                                    cudaHostRegisterPortable | cudaHostRegisterMapped);
        if (result != cudaSuccess) {
            cudaGetLastError();  // or the next call would report it again
            refuse(gpu, bytes,
                   cat("the driver says \"", cudaGetErrorString(result), "\" (", cudaGetErrorName(result), ")"));
        }
        void* seen_by_gpu = nullptr;
        if (cudaHostGetDevicePointer(&seen_by_gpu, memory_->base(), 0) != cudaSuccess ||
            seen_by_gpu != memory_->base()) {
            cudaGetLastError();
            cudaHostUnregister(memory_->base());
            refuse(gpu, bytes, "this GPU does not see the host's memory under the host's addresses");
        }
    }
    // Its kernels must be over: they stand in the arena's device, which ends before it.
    ~CudaHostBacking() override {
        cudaSetDevice(gpu_);
        cudaHostUnregister(memory_->base());
    }
    CudaHostBacking(const CudaHostBacking&) = delete;
    CudaHostBacking& operator=(const CudaHostBacking&) = delete;

    [[nodiscard]] std::byte* base() const override { return memory_->base(); }
    [[nodiscard]] std::optional<int64_t> capacity() const override { return memory_->capacity(); }
    void give_back(int64_t, int64_t) override {}
    void touch(int64_t, const LongWork&) override {}

private:
    static int64_t capacity_of(const Backing& memory) { return memory.capacity().value(); }

    int gpu_;
    std::unique_ptr<Backing> memory_;
};

}  // namespace

std::unique_ptr<Backing> make_cuda_host_backing(int gpu, int64_t bytes, const LongWork& work) {
    return std::make_unique<CudaHostBacking>(gpu, bytes, work);
}

}  // namespace accrue
