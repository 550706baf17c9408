#pragma once

#include "accrue/kernels/cuda/scratch.h"
#include "accrue/kernels/operation/attention.h"

// Attention by kernels of our own: bf16 and fp16 on tensor cores, fp32 (and heads that are too large for those) by plain
// arithmetic. Any mask, segments, groups of heads, head sizes and strides. The bits of a row depend on its segment and on
// the kind of GPU: tiles are chosen by head size, dtype and the shared memory that a block may have, never by a length.
namespace accrue::cuda {

struct Context;

void own_attention(Context& context, const op::Attention& call, Scratch scratch);
void own_attention_grad(Context& context, const op::AttentionGrad& call, Scratch scratch);

// [rows, query_heads]: d_output . output of each row and head.
[[nodiscard]] inline float* take_delta(Scratch& scratch, const op::AttentionGrad& call) {
    return scratch.take<float>(call.query.rows * call.shape.query_heads);
}

}  // namespace accrue::cuda
