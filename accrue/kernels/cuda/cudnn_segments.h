#pragma once

#include <array>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/cudnn_plan.h"

namespace accrue::cuda {

// The lengths of segments and, for rows of each stride, where each begins and the last one ends, as cuDNN reads them.
struct CudnnSegmentsArgs {
    const Segment* segments = nullptr;
    int64_t count = 0;
    int32_t* lengths = nullptr;
    int32_t* offsets = nullptr;  // [strides, count + 1]
    int64_t strides = 0;
    std::array<int64_t, kCudnnMostStrides> stride{};
};

void launch_cudnn_segments(Context& context, const CudnnSegmentsArgs& args);

}  // namespace accrue::cuda
