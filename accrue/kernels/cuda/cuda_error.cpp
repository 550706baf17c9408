#include "accrue/kernels/cuda/cuda_error.h"

#include "accrue/base/error.h"

namespace accrue::cuda {
namespace {

// What a person can do about it.
std::string_view advice_for(cudaError_t result) {
    switch (result) {
        case cudaErrorMemoryAllocation:
            return "Another process may have taken the card's memory: nvidia-smi shows who. Free it, or give a lower "
                   "compute.memory";
        case cudaErrorNoDevice:
        case cudaErrorInsufficientDriver:
        case cudaErrorSystemDriverMismatch:
            return "Check the driver with nvidia-smi, or use --set compute.device=cpu";
        case cudaErrorDevicesUnavailable:
            return "Another process has the GPU for itself, or nobody may use it (nvidia-smi shows both). Wait, choose "
                   "another one, or use --set compute.device=cpu";
        case cudaErrorNoKernelImageForDevice:
        case cudaErrorInvalidDeviceFunction:
            return "This program was not built for this GPU: build it on this machine (or set "
                   "ACCRUE_CUDA_ARCHITECTURES "
                   "to what nvidia-smi --query-gpu=compute_cap says, without the point), or use --set "
                   "compute.device=cpu";
        default:
            return "The GPU stopped working for this process and may work for the next one (nvidia-smi and dmesg may "
                   "say why): start again";
    }
}

}  // namespace

void require(cudaError_t result, std::string_view doing) {
    if (result != cudaSuccess) {
        throw Error(cat("the GPU failed while ", doing, ": ", cudaGetErrorString(result), " (",
                        cudaGetErrorName(result), "). ", advice_for(result), "."));
    }
}

}  // namespace accrue::cuda
