#pragma once

#include "accrue/kernels/cuda/attention_args.cuh"

// Attention by plain arithmetic in fp32, for operands of every dtype and heads of every size.
namespace accrue::cuda {

void launch_simple_attention(Context& context, const op::Attention& call, const AttentionForwardArgs& args);
void launch_simple_attention_grad(Context& context, const op::AttentionGrad& call, const AttentionBackwardArgs& args);

}  // namespace accrue::cuda
