#include "accrue/kernels/cuda/attention.h"
#include "accrue/kernels/cuda/context.h"

namespace accrue::cuda {

void lower(Context& context, const op::Attention& call, Scratch scratch) {
    own_attention(context, call, scratch);
}

void lower(Context& context, const op::AttentionGrad& call, Scratch scratch) {
    own_attention_grad(context, call, scratch);
}

std::string attention_description(const Context& /*context*/) {
    return "own attention";
}

}  // namespace accrue::cuda
