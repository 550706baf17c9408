#include "accrue/kernels/cuda/column_sums_plan.h"
#include "accrue/kernels/cuda/linear_plan.h"

namespace accrue::cuda {
namespace {

int64_t input_gradient_bytes(const op::LinearBackward& call) {
    if (call.d_input.empty()) {
        return 0;
    }
    Scratch scratch;
    static_cast<void>(narrow_weight_room(scratch, call.weight, call.d_output.dtype));
    const InputSlices slices = input_slices(call.weight.out());
    if (slices.count > 1) {
        static_cast<void>(slice_room(scratch, call, slices));
    }
    return scratch.bytes();
}

int64_t weight_gradient_bytes(const op::LinearBackward& call, const op::LinearSums& sums) {
    if (sums.weight.empty()) {
        return 0;
    }
    Scratch scratch;
    const GradientRoom room = gradient_room(scratch, call, sums);
    for (int64_t grain = 0; grain < room.grains; ++grain) {
        scratch.take<TileStatistics>(add_tiles(sums.outputs * call.input.columns));
    }
    return scratch.bytes();
}

int64_t bias_gradient_bytes(const op::LinearBackward& call, const op::LinearSums& sums) {
    return sums.bias.empty() ? 0 : add_column_sums_bytes(sums.outputs, call.grains);
}

}  // namespace

int64_t scratch_bytes(const op::Linear& call) {
    Scratch scratch;
    static_cast<void>(linear_room(scratch, call.weight, call.bias, call.input.dtype));
    return scratch.bytes();
}

int64_t scratch_bytes(const op::LinearResidual& call) {
    Scratch scratch;
    static_cast<void>(linear_room(scratch, call.weight, call.bias, call.input.dtype));
    return scratch.bytes();
}

int64_t scratch_bytes(const op::LinearActivation& call) {
    return scratch_bytes(call.product());
}

// One after the other in the same place.
int64_t scratch_bytes(const op::LinearBackward& call) {
    int64_t most = input_gradient_bytes(call);
    for (const op::LinearSums& sums : call.sums) {
        most = std::max({most, weight_gradient_bytes(call, sums), bias_gradient_bytes(call, sums)});
    }
    return most;
}

}  // namespace accrue::cuda
