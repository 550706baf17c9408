#include <cuda_runtime_api.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/kernels/cuda/cuda_error.h"
#include "accrue/kernels/device.h"

namespace accrue {
namespace {

// Memory of a GPU, in one piece: there from the beginning to the end, whoever else uses the card meanwhile.
class CudaBacking final : public Backing {
public:
    CudaBacking(int gpu, int64_t bytes) : gpu_(gpu), bytes_(bytes) {
        cuda::require(cudaSetDevice(gpu), "beginning");
        void* memory = nullptr;
        const cudaError_t result = cudaMalloc(&memory, static_cast<size_t>(bytes));
        if (result == cudaErrorMemoryAllocation) {
            cudaGetLastError();  // or the next call would report it again
            size_t free = 0;
            size_t total = 0;
            cudaMemGetInfo(&free, &total);
            throw Error(
                cat("the GPU cuda:", gpu, " has ", format_bytes(static_cast<int64_t>(free)),
                    " of its memory free, but ", format_bytes(bytes),
                    " are needed. nvidia-smi shows who uses the card: free it, or give a lower compute.memory."));
        }
        cuda::require(result, cat("taking ", format_bytes(bytes), " of its memory"));
        base_ = static_cast<std::byte*>(memory);
    }
    ~CudaBacking() override {
        cudaSetDevice(gpu_);
        cudaFree(base_);
    }
    CudaBacking(const CudaBacking&) = delete;
    CudaBacking& operator=(const CudaBacking&) = delete;

    [[nodiscard]] std::byte* base() const override { return base_; }
    [[nodiscard]] std::optional<int64_t> capacity() const override { return bytes_; }
    void give_back(int64_t, int64_t) override {}
    void touch(int64_t, const LongWork&) override {}

private:
    int gpu_;
    int64_t bytes_;
    std::byte* base_ = nullptr;
};

}  // namespace

std::unique_ptr<Backing> make_cuda_backing(int gpu, int64_t bytes) {
    return std::make_unique<CudaBacking>(gpu, bytes);
}

}  // namespace accrue
