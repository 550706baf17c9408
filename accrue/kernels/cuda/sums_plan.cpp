#include "accrue/kernels/cuda/sums_plan.h"

namespace accrue::cuda {

int64_t complete_sums_bytes(int64_t waiting_tiles) {
    Scratch scratch;
    scratch.take<TileStatistics>(waiting_tiles);
    return scratch.bytes();
}

int64_t scratch_bytes(const op::AddGradient& call) {
    return complete_sums_bytes(add_tiles(call.sum.elements()));
}

int64_t scratch_bytes(const op::AddLookupGrad& call) {
    Scratch scratch;
    static_cast<void>(lookup_statistics(scratch, call));
    return scratch.bytes();
}

int64_t scratch_bytes(const op::SquaredNorm& call) {
    Scratch scratch;
    static_cast<void>(norm_scratch(scratch, call.gradients));
    return scratch.bytes();
}

}  // namespace accrue::cuda
