#include <algorithm>
#include <utility>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/pending_records.h"
#include "accrue/kernels/cuda/sum_element.cuh"

namespace accrue::cuda {
namespace {

constexpr int kRecordThreads = 256;

struct RecordArgs {
    const RecordPart* parts = nullptr;
    const TileStatistics* statistics = nullptr;
};

// One block for each part.
__global__ void __launch_bounds__(kRecordThreads) record_kernel(RecordArgs args) {
    const RecordPart part = args.parts[blockIdx.x];
    TileStatistics statistics{};
    for (int64_t i = threadIdx.x; i < part.count; i += kRecordThreads) {
        join(statistics, args.statistics[part.first + i]);
    }
    const TileStatistics all = block_statistics(statistics);
    if (threadIdx.x != 0) {
        return;
    }
    // A record has more than one source where an embedding is tied; each comes with a launch of its own, and two numbers add
    // up alike in either order.
    part.record->squares += all.squares;
    part.record->largest = fmaxf(part.record->largest, __uint_as_float(all.largest));
    if (all.not_finite != 0) {
        part.record->not_finite = true;
    }
}

}  // namespace

void add_to_records(Context& context, std::span<const RecordPart> parts, const TileStatistics* statistics) {
    if (!parts.empty()) {
        context.tape.launch(record_kernel,
                            {.blocks = dim3(static_cast<uint32_t>(parts.size())), .threads = kRecordThreads},
                            RecordArgs{.parts = context.tape.constant(parts), .statistics = statistics});
    }
}

TileStatistics* PendingRecords::room(Context& context, std::span<const RecordPart> parts, int64_t tiles) {
    if (tiles > capacity_) {
        return nullptr;
    }
    const bool comes_again =
        std::ranges::any_of(parts, [this](const RecordPart& part) { return records_.contains(part.record); });
    if (comes_again || used_ + tiles > capacity_) {
        flush(context);
    }
    for (RecordPart part : parts) {
        part.first += used_;
        parts_.push_back(part);
        records_.insert(part.record);
    }
    return statistics_ + std::exchange(used_, used_ + tiles);
}

void PendingRecords::flush(Context& context) {
    used_ = 0;
    records_.clear();
    add_to_records(context, std::exchange(parts_, {}), statistics_);
}

}  // namespace accrue::cuda
