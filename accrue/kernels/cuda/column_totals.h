#pragma once

#include <span>
#include <vector>

#include "accrue/kernels/cuda/column_sums_plan.h"
#include "accrue/kernels/cuda/context.h"

namespace accrue::cuda {

// One grain's total of one tensor: of `count` partial sums of so many columns, `stride` elements apart.
struct TotalJob {
    const float* partials = nullptr;
    int64_t count = 0;
    int64_t stride = 0;
    int64_t columns = 0;
    float* total = nullptr;
};

// Totals of column sums that are still to be made. Each is little work, and a model has six of them a block: they wait in
// memory of their own, so that one launch makes many. Nobody but the sums of their tensors misses them: whoever lets
// somebody read sums flushes first.
class PendingTotals {
public:
    PendingTotals(std::byte* memory, int64_t bytes) : memory_(memory), bytes_(bytes) {}

    // Room for partial sums and totals: where they may wait, after a flush if it must be; in the scratch memory where they
    // are more than fits.
    [[nodiscard]] ColumnSums room(Context& context, Scratch& scratch, int64_t columns, int64_t tensors,
                                  std::span<const RowRange> grains);
    void add(std::span<const TotalJob> jobs, std::span<const GrainGradient> gradients);
    // Puts all of it on the tape: totals, then their way into the sums.
    void flush(Context& context);

private:
    [[nodiscard]] std::byte* partials_begin() const { return memory_ + kTotalBytes; }

    static constexpr int64_t kTotalBytes = int64_t{4} << 20;

    std::byte* memory_;  // totals, then partial sums
    int64_t bytes_;
    int64_t totals_used_ = 0;
    int64_t partials_used_ = 0;
    std::vector<TotalJob> jobs_;
    std::vector<GrainGradient> gradients_;
};

// Where a grain's partial sums begin, and where its gradient goes.
struct TensorSums {
    std::span<const SumView> sums;  // one for each grain
    int64_t tensor = 0;             // which of the tensors that the partial sums are of
};
// Makes the grains' totals from the partial sums, in each sum's `waiting` place or beside the partial sums, and has them
// added: later where they may wait, else at once.
void add_totals(Context& context, const ColumnSums& partial_sums, int64_t columns, int64_t tensors,
                std::span<const RowRange> grains, std::span<const TensorSums> wanted, Scratch& scratch);

}  // namespace accrue::cuda
