#include <algorithm>
#include <utility>

#include "accrue/kernels/cuda/column_totals.h"
#include "accrue/kernels/cuda/device.cuh"

namespace accrue::cuda {
namespace {

constexpr int kTotalColumns = 32;  // of a block that makes totals
constexpr int kTotalSlices = 16;   // in which it takes the partial sums

struct TotalArgs {
    const TotalJob* jobs = nullptr;  // one for each y of the grid
};

// In double: slice s has partial sums s, s + 16, ...; then the slices in their order.
__global__ void __launch_bounds__(kTotalColumns* kTotalSlices) make_totals(TotalArgs args) {
    __shared__ double slices[kTotalSlices][kTotalColumns + 1];
    const TotalJob job = args.jobs[blockIdx.y];
    const uint32_t lane = threadIdx.x % kTotalColumns;
    const uint32_t slice = threadIdx.x / kTotalColumns;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kTotalColumns + lane;
    if (static_cast<int64_t>(blockIdx.x) * kTotalColumns >= job.columns) {
        return;  // the grid is as wide as the widest
    }
    double sum = 0;
    if (column < job.columns) {
#pragma unroll 4
        for (int64_t p = slice; p < job.count; p += kTotalSlices) {
            sum += static_cast<double>(job.partials[p * job.stride + column]);
        }
    }
    slices[slice][lane] = sum;
    __syncthreads();
    if (slice == 0 && column < job.columns) {
        double total = 0;
        for (int s = 0; s < kTotalSlices; ++s) {
            total += slices[s][lane];
        }
        job.total[column] = static_cast<float>(total);
    }
}

void launch_totals(Tape& tape, std::span<const TotalJob> jobs) {
    constexpr size_t kMostJobs = 65535;  // of a grid's y
    for (; !jobs.empty(); jobs = jobs.subspan(std::min(jobs.size(), kMostJobs))) {
        const auto some = jobs.first(std::min(jobs.size(), kMostJobs));
        const int64_t widest = std::ranges::max(some, {}, &TotalJob::columns).columns;
        tape.launch(make_totals,
                    {.blocks = dim3(static_cast<uint32_t>((widest + kTotalColumns - 1) / kTotalColumns),
                                    static_cast<uint32_t>(some.size())),
                     .threads = kTotalColumns * kTotalSlices},
                    TotalArgs{.jobs = tape.constant(some)});
    }
}

}  // namespace

ColumnSums PendingTotals::room(Context& context, Scratch& scratch, int64_t columns, int64_t tensors,
                               std::span<const RowRange> grains) {
    Scratch counted;
    const ColumnSums sizes = cut_column_sums(counted, columns, tensors, grains);
    const int64_t totals = sizes.partials_begin;
    const int64_t partials = counted.bytes() - totals;
    if (totals > kTotalBytes || partials > bytes_ - kTotalBytes) {
        return cut_column_sums(scratch, columns, tensors, grains);
    }
    if (totals_used_ + totals > kTotalBytes || partials_used_ + partials > bytes_ - kTotalBytes) {
        flush(context);
    }
    const ColumnSums cut{.totals = reinterpret_cast<float*>(memory_ + totals_used_),
                         .partials = reinterpret_cast<float*>(partials_begin() + partials_used_),
                         .may_wait = true};
    totals_used_ += totals;
    partials_used_ += partials;
    return cut;
}

void PendingTotals::add(std::span<const TotalJob> jobs, std::span<const GrainGradient> gradients) {
    jobs_.insert(jobs_.end(), jobs.begin(), jobs.end());
    gradients_.insert(gradients_.end(), gradients.begin(), gradients.end());
}

void PendingTotals::flush(Context& context) {
    totals_used_ = 0;
    partials_used_ = 0;
    if (jobs_.empty()) {
        return;
    }
    launch_totals(context.tape, std::exchange(jobs_, {}));
    Scratch scratch(partials_begin());  // whoever adds them comes when the totals are made
    add_gradients(context, std::exchange(gradients_, {}), scratch);
}

void add_totals(Context& context, const ColumnSums& partial_sums, int64_t columns, int64_t tensors,
                std::span<const RowRange> grains, std::span<const TensorSums> wanted, Scratch& scratch) {
    std::vector<TotalJob> jobs;
    std::vector<GrainGradient> gradients;
    for (const TensorSums& tensor : wanted) {
        int64_t first = 0;
        for (size_t grain = 0; grain < grains.size(); ++grain) {
            const int64_t count = partial_sums_of(grains[grain].rows);
            const SumView& sum = tensor.sums[grain];
            if (count > 0 && sum.is_wanted()) {
                const int64_t place = (static_cast<int64_t>(grain) * tensors + tensor.tensor) * columns;
                float* total = sum.waiting != nullptr ? sum.waiting : partial_sums.totals + place;
                jobs.push_back({.partials = partial_sums.partials + (first * tensors + tensor.tensor) * columns,
                                .count = count,
                                .stride = tensors * columns,
                                .columns = columns,
                                .total = total});
                gradients.push_back({.values = total, .sum = sum});
            }
            first += count;
        }
    }
    if (partial_sums.may_wait) {
        context.totals.add(jobs, gradients);
    } else if (!jobs.empty()) {
        launch_totals(context.tape, jobs);
        scratch.rewind(partial_sums.partials_begin);
        add_gradients(context, gradients, scratch);
    }
}

}  // namespace accrue::cuda
