#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "accrue/kernels/cuda/plan.h"
#include "accrue/kernels/sum_view.h"

namespace accrue::cuda {

struct Context;

// Statistics that become part of a grain's record, in their order.
struct RecordPart {
    GrainRecord* record = nullptr;
    int64_t first = 0;
    int64_t count = 0;
};
// In one launch: no record may come twice.
void add_to_records(Context& context, std::span<const RecordPart> parts, const TileStatistics* statistics);

// Statistics that are still to become part of records. Each tensor's are little work, so they wait in memory of their own, and one
// launch takes many. Records are read when all that was asked is done: whoever finishes a tape flushes first.
class PendingRecords {
public:
    PendingRecords(std::byte* memory, int64_t bytes)
        : statistics_(reinterpret_cast<TileStatistics*>(memory)),
          capacity_(bytes / static_cast<int64_t>(sizeof(TileStatistics))) {}

    // Room for the statistics of so many tiles, to which the parts' places refer; they are pending from now on. After a flush
    // if it must be; nothing if they are more than fits.
    [[nodiscard]] TileStatistics* room(Context& context, std::span<const RecordPart> parts, int64_t tiles);
    // Puts all of it on the tape.
    void flush(Context& context);

private:
    TileStatistics* statistics_;
    int64_t capacity_;
    int64_t used_ = 0;
    std::vector<RecordPart> parts_;
    std::unordered_set<const GrainRecord*> records_;  // of the parts
};

}  // namespace accrue::cuda
