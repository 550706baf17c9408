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
    // In somebody else's memory, whose bytes are 0.
    RecordTable(std::byte* place, std::span<const GradientSink::Grain> grains, int64_t tensors);
    [[nodiscard]] static int64_t bytes_for(int64_t grains, int64_t tensors);

    // On the device.
    [[nodiscard]] GrainRecord* record(int64_t grain, int64_t tensor) const;
    [[nodiscard]] View<double> loss_sums() const;
    [[nodiscard]] std::span<const std::byte> device_bytes() const;
    // From its bytes, downloaded. The grains are finished then.
    void write_to(GrainLedger& ledger, std::span<const std::byte> host) const;

private:
    std::vector<GradientSink::Grain> grains_;
    int64_t tensors_;
    Arena::Block memory_;  // its own, if it has some
    std::byte* place_;     // records, grain by grain; then the losses
};

// The tables of micro-batches whose records are still on the device. A device that may owe several gets memory for them
// once, so that all micro-batches find the arena alike; more grains than that have room of their own.
class IncompleteRecords {
public:
    IncompleteRecords(Kernels& kernels, int64_t tensors);

    // Whether so many grains more are too many before the others have come down.
    [[nodiscard]] bool is_full_for(int64_t grains) const;
    void begin(std::span<const GradientSink::Grain> grains);
    // Of the micro-batch that began last.
    [[nodiscard]] RecordTable& current() { return tables_.back(); }
    [[nodiscard]] bool empty() const { return tables_.empty(); }
    [[nodiscard]] int64_t grains() const { return grains_; }
    [[nodiscard]] int64_t bytes() const { return memory_.bytes(); }  // that it keeps
    // Waits for the device; all grains are finished then, and nothing is left.
    void write_to(GrainLedger& ledger);
    void clear();

private:
    Kernels& kernels_;
    int64_t tensors_;
    int64_t most_;         // grains
    Arena::Block memory_;  // nothing where a device owes only one micro-batch
    int64_t used_ = 0;     // bytes of it
    int64_t grains_ = 0;   // of all tables
    std::vector<RecordTable> tables_;
};

}  // namespace accrue
