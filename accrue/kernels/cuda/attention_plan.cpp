#include "accrue/kernels/cuda/attention.h"
#include "accrue/kernels/cuda/plan.h"

namespace accrue::cuda {

int64_t scratch_bytes(const op::Attention&) {
    return 0;
}

int64_t scratch_bytes(const op::AttentionGrad& call) {
    Scratch scratch;
    static_cast<void>(take_delta(scratch, call));
    return scratch.bytes();
}

}  // namespace accrue::cuda
