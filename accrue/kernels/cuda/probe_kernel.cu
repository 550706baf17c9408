#include <cuda_runtime_api.h>

#include "accrue/kernels/cuda/cuda_error.h"
#include "accrue/kernels/cuda/probe_kernel.h"

namespace accrue::cuda {
namespace {

// All kernels of the program are built for the same GPUs.
__global__ void nothing() {}

}  // namespace

bool has_code_for(int gpu) {
    require(cudaSetDevice(gpu), "beginning");
    cudaFuncAttributes attributes{};
    const cudaError_t result = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(nothing));
    if (result == cudaErrorNoKernelImageForDevice || result == cudaErrorInvalidDeviceFunction) {
        cudaGetLastError();
        return false;
    }
    require(result, "beginning");
    return true;
}

}  // namespace accrue::cuda
