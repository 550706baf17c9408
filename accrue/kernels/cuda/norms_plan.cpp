#include "accrue/kernels/cuda/norms_plan.h"

namespace accrue::cuda {

int64_t scratch_bytes(const op::RmsNormBackward& call) {
    return sums_of(call).bytes(call.input.columns, call.gain.columns, call.grains);
}

int64_t scratch_bytes(const op::LayerNormBackward& call) {
    return sums_of(call).bytes(call.input.columns, call.gain.columns, call.grains);
}

}  // namespace accrue::cuda
