#pragma once

#include "accrue/kernels/cuda/scratch.h"
#include "accrue/kernels/operation/attention.h"

// Which attention is cuDNN's, and what it takes for itself: by formula, so that a plan needs neither a GPU nor cuDNN.
//
// The rule looks at what stays the same in a run: the GPU's architecture, the shape of the heads, their dtype and mask,
// whether there is dropout, and the longest segment that the run has (AttentionShape::longest). Never at one micro-batch: all
// segments of a run, short and long ones, alone and beside others, are computed by the same kernel. Its bits do not depend on
// how many segments one call has, how long the others are, or how much room each is given; so calls may be cut as memory
// asks for.
namespace accrue::cuda {

// Measured on Hopper for these heads. Others, and segments whose scores would take too much memory, are our own kernels'.
[[nodiscard]] bool is_for_cudnn(const AttentionShape& shape, DType dtype, int architecture);

// Whether segments without gaps, all as long as the longest, may be read by strides instead of by offsets, which is faster:
// only where both were seen to give the same bits.
[[nodiscard]] constexpr bool may_read_by_strides(const AttentionShape& shape) {
    return shape.head_size == 64;
}

// Whether all segments have the longest one's length and fill all rows: then each begins where the one before it ends.
[[nodiscard]] bool are_all_longest(const Segments& segments, const AttentionShape& shape, int64_t rows);

// How many segments one call takes at most: a power of two, because each number needs a graph of its own.
inline constexpr int64_t kCudnnForwardSegments = 64;
[[nodiscard]] int64_t cudnn_backward_segments(const AttentionShape& shape, int64_t rows);
// The next call's, when so many segments are left.
[[nodiscard]] int64_t cudnn_segments_of_call(int64_t left, int64_t most);

// What cuDNN may ask for: backward keeps the gradient of all scores, so that it can add in a fixed order.
[[nodiscard]] int64_t cudnn_forward_workspace_bytes();
[[nodiscard]] int64_t cudnn_backward_workspace_bytes(const AttentionShape& shape, int64_t segments);

// What a call takes, beside what its views hold.
struct CudnnScratch {
    int32_t* lengths = nullptr;  // of the segments
    int32_t* offsets = nullptr;  // [strides, segments + 1]: where each begins, in elements, and where the last one ends
    float* delta = nullptr;      // of one call, backward only
    std::byte* workspace = nullptr;
};
inline constexpr int64_t kCudnnMostStrides = 9;
[[nodiscard]] CudnnScratch take_cudnn_scratch(Scratch& scratch, const op::Attention& call);
[[nodiscard]] CudnnScratch take_cudnn_scratch(Scratch& scratch, const op::AttentionGrad& call);

}  // namespace accrue::cuda
