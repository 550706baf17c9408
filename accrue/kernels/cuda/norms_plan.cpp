#include "accrue/kernels/cuda/column_sums_plan.h"

namespace accrue::cuda {

int64_t scratch_bytes(const op::RmsNormBackward& call) {
    return call.d_gain.empty() ? 0 : column_sums_bytes(call.gain.columns, 1, call.grains);
}

int64_t scratch_bytes(const op::LayerNormBackward& call) {
    const int64_t tensors = (call.d_gain.empty() ? 0 : 1) + (call.d_bias.empty() ? 0 : 1);
    return tensors == 0 ? 0 : column_sums_bytes(call.gain.columns, tensors, call.grains);
}

}  // namespace accrue::cuda
