#pragma once

#include <span>
#include <vector>

#include "accrue/accumulate/ledger.h"
#include "accrue/kernels/gradient_sink.h"
#include "accrue/kernels/kernels.h"

namespace accrue {

// What a device notes of the grains of one micro-batch, in its own memory: a record of each grain and tensor, and each
// grain's loss. Comes down to the ledger in one piece.
class RecordTable {
public:
    // Takes the memory from the device's arena; nothing is noted yet.
    RecordTable(Kernels& kernels, std::span<const GradientSink::Grain> grains, int64_t tensors);

    // On the device.
    [[nodiscard]] GrainRecord* record(int64_t grain, int64_t tensor) const;
    [[nodiscard]] View<double> loss_sums() const;
    // Waits for the device. The grains are finished then.
    void write_to(GrainLedger& ledger) const;

private:
    Kernels& kernels_;
    std::vector<GradientSink::Grain> grains_;
    int64_t tensors_;
    Arena::Block memory_;  // records, grain by grain; then the losses
};

}  // namespace accrue
