#include "accrue/kernels/cuda/cudnn_segments.h"

namespace accrue::cuda {
namespace {

constexpr uint32_t kThreads = 128;

__global__ void cudnn_segments_kernel(CudnnSegmentsArgs args) {
    const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
    if (i > args.count) {
        return;
    }
    const bool is_end = i == args.count;
    const Segment segment = args.segments[is_end ? i - 1 : i];
    const int64_t row = is_end ? segment.first + segment.length : segment.first;
    if (!is_end) {
        args.lengths[i] = static_cast<int32_t>(segment.length);
    }
    for (int64_t s = 0; s < args.strides; ++s) {
        args.offsets[s * (args.count + 1) + i] = static_cast<int32_t>(row * args.stride[static_cast<size_t>(s)]);
    }
}

}  // namespace

void launch_cudnn_segments(Context& context, const CudnnSegmentsArgs& args) {
    const auto blocks = static_cast<uint32_t>((args.count + 1 + kThreads - 1) / kThreads);
    context.tape.launch(cudnn_segments_kernel, {.blocks = dim3(blocks), .threads = kThreads}, args);
}

}  // namespace accrue::cuda
