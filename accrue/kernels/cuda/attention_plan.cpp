#include <algorithm>

#include "accrue/kernels/cuda/attention.h"
#include "accrue/kernels/cuda/cudnn_plan.h"
#include "accrue/kernels/cuda/plan.h"

namespace accrue::cuda {

// What cuDNN would take is counted where the table has it, though the library may not be there: a plan is the same with it
// and without.
int64_t scratch_bytes(const op::Attention& call, int architecture) {
    Scratch scratch;
    if (is_for_cudnn(call.shape, call.query.dtype, architecture)) {
        static_cast<void>(take_cudnn_scratch(scratch, call));
    }
    return scratch.bytes();
}

int64_t scratch_bytes(const op::AttentionGrad& call, int architecture) {
    Scratch own;
    static_cast<void>(take_delta(own, call));
    Scratch library;
    if (is_for_cudnn(call.shape, call.query.dtype, architecture)) {
        static_cast<void>(take_cudnn_scratch(library, call));
    }
    return std::max(own.bytes(), library.bytes());
}

}  // namespace accrue::cuda
