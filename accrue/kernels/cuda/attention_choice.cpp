#include "accrue/kernels/cuda/attention.h"
#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/cudnn_attention.h"

namespace accrue::cuda {

void lower(Context& context, const op::Attention& call, Scratch scratch) {
    if (context.cudnn.computes(call)) {
        context.cudnn.put(context, call, scratch);
    } else {
        own_attention(context, call, scratch);
    }
}

void lower(Context& context, const op::AttentionGrad& call, Scratch scratch) {
    if (context.cudnn.computes(call)) {
        context.cudnn.put(context, call, scratch);
    } else {
        own_attention_grad(context, call, scratch);
    }
}

std::string attention_description(const Context& context) {
    const std::string library = context.cudnn.description();
    return library.empty() ? "own attention" : cat("own attention, ", library);
}

}  // namespace accrue::cuda
