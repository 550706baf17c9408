#include <cuda_runtime_api.h>

#include "accrue/base/random.h"
#include "accrue/kernels/cuda/cuda_error.h"
#include "accrue/kernels/cuda/kernel_entry.h"
#include "accrue/kernels/gpu_checks.h"

namespace accrue {
namespace {

constexpr int kThreads = 256;
constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;  // as in dist/linear_check.cpp

struct CheckArgs {
    const int64_t* values = nullptr;
    int64_t count = 0;
    uint64_t state = 0;  // of the first value
    uint64_t* parts = nullptr;
};

// Integers add up alike in every order.
__global__ void __launch_bounds__(kThreads) check_kernel(CheckArgs args) {
    __shared__ uint64_t of_threads[kThreads];
    uint64_t check = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < args.count;
         i += kGpuCheckParts * kThreads) {
        check += static_cast<uint64_t>(args.values[i]) * (mix(args.state + static_cast<uint64_t>(i) * kStep) | 1);
    }
    of_threads[threadIdx.x] = check;
    for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < static_cast<unsigned>(half)) {
            of_threads[threadIdx.x] += of_threads[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        args.parts[blockIdx.x] = of_threads[0];
    }
}

}  // namespace

void enqueue_gpu_check(std::span<const int64_t> values, int64_t first, uint64_t seed, uint64_t* parts, void* stream) {
    CheckArgs args{.values = values.data(),
                   .count = static_cast<int64_t>(values.size()),
                   .state = mix(seed) + static_cast<uint64_t>(first) * kStep,
                   .parts = parts};
    void* pointers[] = {&args};
    cuda::require(cudaLaunchKernel(cuda::entry_of(check_kernel), dim3(static_cast<unsigned>(kGpuCheckParts)),
                                   dim3(kThreads), pointers, 0, static_cast<cudaStream_t>(stream)),
                  "checking sums");
}

}  // namespace accrue
