#pragma once

#include <compare>

#include "accrue/kernels/cuda/cudnn_graph.h"

// Attention and its gradient as graphs of cuDNN's: the operations, in the order and with the types by which the library
// recognizes its own kernels for attention.
namespace accrue::cuda {

// Tensors of these graphs.
enum class CudnnRole : int64_t {
    query = 1,
    key,
    value,
    output,
    log_sum,
    d_output,
    d_query,
    d_key,
    d_value,
    lengths,              // of the segments
    delta,                // of the gradient: d_output . output of each row and head, in memory of its own
    first_offsets = 100,  // of the rows of each stride: first_offsets + its place in CudnnAttentionShape::strides()
};

// All that decides a graph.
struct CudnnAttentionShape {
    int64_t is_gradient = 0;
    int64_t segments = 1;
    int64_t rows = 1;  // of a segment, at most
    int64_t query_heads = 1;
    int64_t key_heads = 1;
    int64_t head_size = 64;
    int64_t is_half = 0;    // fp16, else bf16
    int64_t is_ragged = 0;  // segments begin where offsets say, else every `rows` rows
    float scale = 1;
    // Elements from one row to the next.
    int64_t query_stride = 0;
    int64_t key_stride = 0;
    int64_t value_stride = 0;
    int64_t output_stride = 0;
    int64_t log_sum_stride = 0;
    int64_t d_output_stride = 0;
    int64_t d_query_stride = 0;
    int64_t d_key_stride = 0;
    int64_t d_value_stride = 0;

    auto operator<=>(const CudnnAttentionShape&) const = default;

    // Those that differ.
    [[nodiscard]] std::vector<int64_t> strides() const;
};

[[nodiscard]] CudnnGraph attention_graph(const Cudnn& library, const CudnnAttentionShape& shape);

}  // namespace accrue::cuda
