#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

namespace accrue::cuda {

// An error in a person's words unless the call succeeded. `doing`: "taking 3 GiB of memory".
void require(cudaError_t result, std::string_view doing);

}  // namespace accrue::cuda
