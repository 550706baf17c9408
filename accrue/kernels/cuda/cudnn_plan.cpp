#include "accrue/kernels/cuda/cudnn_plan.h"

#include <algorithm>
#include <bit>

namespace accrue::cuda {
namespace {

constexpr int64_t kMostScoreBytes = int64_t{1} << 30;   // of one segment
constexpr int64_t kMostBytesOfCall = int64_t{2} << 30;  // of all segments that are computed together
constexpr int64_t kBesideScores = int64_t{128} << 10;   // places of tensors, as the library notes them
constexpr int64_t kAlignment = 256;                     // of the library's memory

constexpr int64_t rounded_up(int64_t count, int64_t unit) {
    return (count + unit - 1) / unit * unit;
}

// Of one segment: cuDNN works on 64 queries and 128 keys at a time.
int64_t score_bytes(const AttentionShape& shape) {
    return 2 * shape.query_heads * rounded_up(shape.longest, 64) * rounded_up(shape.longest, 128);
}

int64_t largest_power_of_two(int64_t most) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(most, 1))));
}

// Room for the segments of so many rows, however many they are.
CudnnScratch take_places(Scratch& scratch, int64_t rows) {
    CudnnScratch taken;
    taken.lengths = scratch.take<int32_t>(rows);
    taken.offsets = scratch.take<int32_t>(kCudnnMostStrides * (rows + 1));
    return taken;
}

std::byte* take_workspace(Scratch& scratch, int64_t bytes) {
    const auto place = reinterpret_cast<uintptr_t>(scratch.take<std::byte>(bytes + kAlignment));
    return reinterpret_cast<std::byte*>((place + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

bool is_for_cudnn(const AttentionShape& shape, DType dtype, int architecture) {
    constexpr int kHopper = 90;
    return architecture == kHopper && (dtype == DType::bf16 || dtype == DType::fp16) &&
           (shape.head_size == 64 || shape.head_size == 128) && shape.mask == AttentionMask::causal &&
           shape.dropout.probability == 0 && shape.longest > 1 && score_bytes(shape) <= kMostScoreBytes;
}

bool are_all_longest(const Segments& segments, const AttentionShape& shape, int64_t rows) {
    const int64_t count = segments.list.columns;
    return rows == count * shape.longest && segments.pairs == count * shape.longest * (shape.longest + 1) / 2;
}

int64_t cudnn_backward_segments(const AttentionShape& shape, int64_t rows) {
    const int64_t by_memory = kMostBytesOfCall / score_bytes(shape);
    return largest_power_of_two(std::min(by_memory, rows / shape.longest));
}

int64_t cudnn_segments_of_call(int64_t left, int64_t most) {
    return largest_power_of_two(std::min(left, most));
}

int64_t cudnn_forward_workspace_bytes() {
    return kBesideScores;
}

int64_t cudnn_backward_workspace_bytes(const AttentionShape& shape, int64_t segments) {
    const int64_t keys_of_each_query_head =
        shape.query_heads == shape.key_heads ? 0 : 2 * 2 * shape.query_heads * shape.longest * shape.head_size;
    return kBesideScores + segments * (score_bytes(shape) + keys_of_each_query_head);
}

CudnnScratch take_cudnn_scratch(Scratch& scratch, const op::Attention& call) {
    CudnnScratch taken = take_places(scratch, call.query.rows);
    taken.workspace = take_workspace(scratch, cudnn_forward_workspace_bytes());
    return taken;
}

CudnnScratch take_cudnn_scratch(Scratch& scratch, const op::AttentionGrad& call) {
    CudnnScratch taken = take_places(scratch, call.query.rows);
    const int64_t segments = cudnn_backward_segments(call.shape, call.query.rows);
    taken.delta = scratch.take<float>(segments * call.shape.query_heads * call.shape.longest);
    taken.workspace = take_workspace(scratch, cudnn_backward_workspace_bytes(call.shape, segments));
    return taken;
}

}  // namespace accrue::cuda
