#pragma once

#include <span>
#include <string>
#include <vector>

#include "accrue/kernels/cuda/plan.h"
#include "accrue/kernels/cuda/scratch.h"
#include "accrue/kernels/cuda/tape.h"
#include "accrue/tensor/arena.h"

namespace accrue::cuda {

class CudnnAttention;
class PendingRecords;
class PendingTotals;
class Products;

// One grain's gradient of one tensor in fp32, without gaps, rows * columns of the sum.
struct GrainGradient {
    const float* values = nullptr;
    SumView sum;
};

// What every operation needs to be put on a tape.
struct Context {
    Tape& tape;
    Products& products;  // the matrix library, and which of its algorithms are used
    CudnnAttention& cudnn;
    int architecture = 0;  // 90 = sm_90
    int multiprocessors = 0;
    int shared_bytes = 0;  // that a block may ask for
    // Gradients that were left in SumView::waiting and are to be added by CompleteSums.
    std::vector<GrainGradient>& waiting;
    PendingTotals& totals;
    PendingRecords& records;
    const Arena& arena;  // to ask what lies on the host, where kernels reach it over the bus
};

// Adds gradients of grains to their sums and records: those that lie in their `waiting` place later, all others at once, in
// their order. Scratch: add_now_bytes of the elements of those that are added at once.
void add_gradients(Context& context, std::span<const GrainGradient> gradients, Scratch& scratch);
[[nodiscard]] constexpr int64_t add_now_bytes(int64_t elements) {
    return add_tiles(elements) * static_cast<int64_t>(sizeof(TileStatistics));
}

// Puts an operation on the tape; `scratch` has scratch_bytes(call) bytes.
void lower(Context& context, const op::Linear& call, Scratch scratch);
void lower(Context& context, const op::LinearResidual& call, Scratch scratch);
void lower(Context& context, const op::LinearActivation& call, Scratch scratch);
void lower(Context& context, const op::LinearBackward& call, Scratch scratch);
void lower(Context& context, const op::RmsNorm& call, Scratch scratch);
void lower(Context& context, const op::LayerNorm& call, Scratch scratch);
void lower(Context& context, const op::RmsNormBackward& call, Scratch scratch);
void lower(Context& context, const op::LayerNormBackward& call, Scratch scratch);
void lower(Context& context, const op::Rope& call, Scratch scratch);
void lower(Context& context, const op::RopeGrad& call, Scratch scratch);
void lower(Context& context, const op::Attention& call, Scratch scratch);
void lower(Context& context, const op::AttentionGrad& call, Scratch scratch);
void lower(Context& context, const op::Gelu& call, Scratch scratch);
void lower(Context& context, const op::GeluGrad& call, Scratch scratch);
void lower(Context& context, const op::Swiglu& call, Scratch scratch);
void lower(Context& context, const op::SwigluGrad& call, Scratch scratch);
void lower(Context& context, const op::Embed& call, Scratch scratch);
void lower(Context& context, const op::AddLookupGrad& call, Scratch scratch);
void lower(Context& context, const op::CrossEntropy& call, Scratch scratch);
void lower(Context& context, const op::GrainLosses& call, Scratch scratch);
void lower(Context& context, const op::SquaredNorm& call, Scratch scratch);
void lower(Context& context, const op::UpdateAdamW& call, Scratch scratch);
void lower(Context& context, const op::UpdateSgd& call, Scratch scratch);
void lower(Context& context, const op::UpdateAdamW8Bit& call, Scratch scratch);
void lower(Context& context, const op::UpdateSgd8Bit& call, Scratch scratch);
void lower(Context& context, const op::Cast& call, Scratch scratch);
void lower(Context& context, const op::FillZero& call, Scratch scratch);
void lower(Context& context, const op::AddGradient& call, Scratch scratch);
void lower(Context& context, const op::AddSums& call, Scratch scratch);
void lower(Context& context, const op::CompleteSums& call, Scratch scratch);

// Which kernels compute attention, for people and checkpoints.
[[nodiscard]] std::string attention_description(const Context& context);

// Column sums of some rows, as biases and gains have them as gradients: a grain's rows are taken in blocks of so many rows,
// whose sums are added in their order. Depends on the grain alone.
[[nodiscard]] constexpr int64_t rows_per_partial_sum(int64_t grain_rows) {
    return grain_rows >= 4096 ? 32 : grain_rows >= 512 ? 8 : 4;
}

}  // namespace accrue::cuda
