#include "accrue/kernels/cuda/column_sums_plan.h"

namespace accrue::cuda {

int64_t scratch_bytes(const op::GeluGrad& call) {
    return call.d_bias.empty() ? 0 : add_column_sums_bytes(call.d_input.columns, call.grains);
}

}  // namespace accrue::cuda
