#pragma once

#include <cmath>
#include <initializer_list>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/device.cuh"
#include "accrue/kernels/operation/attention.h"

// What attention's kernels are given, and how they read and write their matrices.
namespace accrue::cuda {

// Heads side by side in rows that are `stride` elements apart.
struct Operand {
    const void* data = nullptr;
    int64_t stride = 0;
};

// The same, to be written, in a dtype of its own.
struct Target {
    void* data = nullptr;
    int64_t stride = 0;
    int64_t dtype = 0;
    int64_t in_words = 0;  // two neighbours at a time, of which the first has an even column
};

struct AttentionArgs {
    const Segment* segments = nullptr;
    int64_t query_heads = 1;
    int64_t key_heads = 1;
    int64_t group = 1;  // query heads that read one key head
    int64_t head_size = 1;
    int64_t causal = 1;
    int64_t in_vectors = 0;  // all operands can be read 16 bytes at a time
    float scale = 1;
    float power_scale = 1;  // e^(scale x) = 2^(power_scale x); never 0, so that infinity times it is infinity
    DropoutArgs dropout;
    Operand query;
    Operand key;
    Operand value;
};

struct AttentionForwardArgs {
    AttentionArgs attention;
    Target output;
    float* log_sum = nullptr;
    int64_t log_sum_stride = 0;
};

struct AttentionBackwardArgs {
    AttentionArgs attention;
    Operand d_output;
    const float* log_sum = nullptr;
    int64_t log_sum_stride = 0;
    const float* delta = nullptr;  // [rows, query_heads]
    Target d_query;
    Target d_key;
    Target d_value;
};

[[nodiscard]] inline Operand operand_of(const AnyConstView& view) {
    return {.data = view.data, .stride = view.stride};
}

[[nodiscard]] inline Target target_of(const AnyView& view, DType operands, int64_t head_size) {
    const bool in_words = view.dtype == operands && bytes_of(operands) == 2 && head_size % 2 == 0 &&
                          view.stride % 2 == 0 && reinterpret_cast<uintptr_t>(view.data) % 4 == 0;
    return {.data = view.data,
            .stride = view.stride,
            .dtype = static_cast<int64_t>(view.dtype),
            .in_words = in_words ? 1 : 0};
}

// Whether every head of every row begins at a multiple of 16 bytes and has a whole number of them.
[[nodiscard]] inline bool can_be_read_in_vectors(const AnyConstView& view, int64_t head_size) {
    constexpr int64_t kVector = 16;
    const int64_t bytes = bytes_of(view.dtype);
    return head_size * bytes % kVector == 0 && view.stride * bytes % kVector == 0 &&
           reinterpret_cast<uintptr_t>(view.data) % kVector == 0;
}

// `operands`: all that is multiplied. They share a dtype.
template <class Op>
[[nodiscard]] AttentionArgs attention_args(const Op& call, std::initializer_list<AnyConstView> operands) {
    constexpr float kLog2OfE = 1.44269504F;
    bool in_vectors = true;
    for (const AnyConstView& view : operands) {
        if (view.dtype != call.query.dtype) {
            throw Error(cat(Op::kName, " was given ", name_of(view.dtype), " beside ", name_of(call.query.dtype)));
        }
        in_vectors = in_vectors && can_be_read_in_vectors(view, call.shape.head_size);
    }
    const float scale = call.shape.scale;
    return {.segments = call.segments.list.data,
            .query_heads = call.shape.query_heads,
            .key_heads = call.shape.key_heads,
            .group = call.shape.query_heads / call.shape.key_heads,
            .head_size = call.shape.head_size,
            .causal = call.shape.mask == AttentionMask::causal ? 1 : 0,
            .in_vectors = in_vectors ? 1 : 0,
            .scale = scale,
            .power_scale = scale == 0 ? 1e-30F : scale * kLog2OfE,
            .dropout = args_of(call.shape.dropout),
            .query = operand_of(call.query),
            .key = operand_of(call.key),
            .value = operand_of(call.value)};
}

[[nodiscard]] inline AttentionForwardArgs forward_args(const op::Attention& call) {
    return {.attention = attention_args(call, {call.query, call.key, call.value}),
            .output = target_of(call.output, call.query.dtype, call.shape.head_size),
            .log_sum = call.log_sum.data,
            .log_sum_stride = call.log_sum.stride};
}

[[nodiscard]] inline AttentionBackwardArgs backward_args(const op::AttentionGrad& call, const float* delta) {
    const DType dtype = call.query.dtype;
    const int64_t head_size = call.shape.head_size;
    return {.attention = attention_args(call, {call.query, call.key, call.value, call.d_output}),
            .d_output = operand_of(call.d_output),
            .log_sum = call.log_sum.data,
            .log_sum_stride = call.log_sum.stride,
            .delta = delta,
            .d_query = target_of(call.d_query, dtype, head_size),
            .d_key = target_of(call.d_key, dtype, head_size),
            .d_value = target_of(call.d_value, dtype, head_size)};
}

// One block for each head of each segment and each so many rows of it. Blocks are started in the order of x, then y, so
// all heads begin with their block 0.
[[nodiscard]] inline dim3 blocks_of_heads(const Segments& segments, int64_t heads, int64_t rows_of_a_block) {
    return {static_cast<uint32_t>(segments.list.columns * heads),
            static_cast<uint32_t>((segments.longest + rows_of_a_block - 1) / rows_of_a_block), 1};
}
[[nodiscard]] inline bool is_empty(const Segments& segments) {
    return segments.list.columns == 0 || segments.longest == 0;
}

// One head's rows of a segment.
template <class T>
struct HeadRows {
    const T* first;
    int64_t stride;
    int rows;
    int columns;
};

template <class T>
__device__ inline HeadRows<T> head_rows(const Operand& operand, const Segment& segment, int64_t head,
                                        int64_t head_size) {
    return {static_cast<const T*>(operand.data) + segment.first * operand.stride + head * head_size, operand.stride,
            static_cast<int>(segment.length), static_cast<int>(head_size)};
}

// `place`: of the element among all of the target's memory.
__device__ inline void store_one(const Target& to, int64_t place, float x) {
    switch (static_cast<DType>(to.dtype)) {
        case DType::bf16:
            static_cast<bf16*>(to.data)[place] = from_float<bf16>(x);
            break;
        case DType::fp16:
            static_cast<fp16*>(to.data)[place] = from_float<fp16>(x);
            break;
        default:
            static_cast<float*>(to.data)[place] = x;
    }
}

__device__ inline float probability_factor(const DropoutArgs& dropout, uint64_t row_key, int64_t head, int key) {
    return dropout.factor(row_key, (static_cast<uint64_t>(head) << 32) + static_cast<uint64_t>(key));
}

}  // namespace accrue::cuda
