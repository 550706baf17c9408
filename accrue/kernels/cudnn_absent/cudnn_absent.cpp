#include "accrue/base/error.h"
#include "accrue/kernels/cuda/cudnn_attention.h"

// What a program has that was built where cuDNN's headers were not: attention by our own kernels only.
namespace accrue::cuda {

struct CudnnAttention::State {
    std::string why_not = "this program was built without cuDNN's headers";
};

CudnnAttention::CudnnAttention(int /*architecture*/) : state_(std::make_unique<State>()) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::computes(const op::Attention& /*call*/) {
    return false;
}

bool CudnnAttention::computes(const op::AttentionGrad& /*call*/) {
    return false;
}

void CudnnAttention::put(Context& /*context*/, const op::Attention& /*call*/, Scratch /*scratch*/) {
    throw Error(state_->why_not);
}

void CudnnAttention::put(Context& /*context*/, const op::AttentionGrad& /*call*/, Scratch /*scratch*/) {
    throw Error(state_->why_not);
}

std::string CudnnAttention::description() const {
    return "";
}

const std::string& CudnnAttention::why_not() const {
    return state_->why_not;
}

}  // namespace accrue::cuda
