#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/accumulate/element_ranges.h"
#include "accrue/accumulate/ledger.h"
#include "accrue/accumulate/record_table.h"
#include "accrue/accumulate/units.h"
#include "accrue/kernels/kernels.h"

namespace accrue {

// A tensor's place in the flat sums.
struct SumTensor {
    int64_t offset = 0;
    int64_t rows = 0;
    int64_t columns = 0;
};

class MeanGradient;

// The gradient of a window: a sum over counted tokens, the loss sum and the count. Two of them add; nobody divides but
// the optimizer. With exact sums any order and any split of the grains gives the same bits; the other kinds repeat
// when grains come in their order, whatever the micro-batches.
class GradientSum final : public GradientSink {
public:
    // Takes flat_elements sums from `memory`: the arena of the kernels, or the piece of it that lies on the host. One tensor
    // for each that is trained.
    GradientSum(std::vector<SumTensor> tensors, int64_t flat_elements, SumKind kind, Kernels& kernels, Arena& memory);
    GradientSum(std::vector<SumTensor> tensors, int64_t flat_elements, SumKind kind, Kernels& kernels)
        : GradientSum(std::move(tensors), flat_elements, kind, kernels, kernels.arena()) {}

    // Takes memory in which the gradients of so many grains may wait to be added in one pass, or gives it back. Exact sums
    // only, and on a device that knows how: with all others nothing waits. Changes no bit.
    void let_wait(int64_t grains);
    // What it holds beside the sums themselves: gradients that wait, and records that are on the device.
    [[nodiscard]] int64_t bytes_beside() const { return waiting_memory_.bytes() + incomplete_.bytes(); }
    // Begins a window: zero sums, no grain finished. Units are needed for exact sums only, and a seed of this step for
    // stochastic ones only. Gradients come multiplied by the loss scale, and are added without it.
    void open(int64_t grains, Units units, uint64_t rounding_seed = 0, int64_t loss_scale = 1);

    void begin(std::span<const Grain> grains) override;
    [[nodiscard]] int64_t loss_scale() const override { return loss_scale_; }
    [[nodiscard]] SumView sum_of(int64_t grain, int64_t tensor) override;
    [[nodiscard]] View<double> loss_sums() override { return incomplete_.current().loss_sums(); }
    void end() override;

    // Adds another part of the same window. Exact sums only: all others depend on the order.
    void add(const GradientSum& other);

    [[nodiscard]] SumKind kind() const { return kind_; }
    // Where the sums lie, and others like them can.
    [[nodiscard]] Arena& memory() const { return memory_; }
    [[nodiscard]] const Units& units() const { return units_; }
    [[nodiscard]] std::span<const SumTensor> tensors() const { return tensors_; }
    // What is known of the grains so far. A device may owe sums until somebody asks: this waits for them, and so does all
    // that follows.
    [[nodiscard]] const GrainLedger& ledger() const;
    // The sum of one tensor over counted tokens, as a view: not divided by their number.
    [[nodiscard]] MeanView sum_over_tokens(int64_t tensor) const;
    // The sums themselves, on the device, to be saved and to be filled again from what was saved.
    [[nodiscard]] std::span<std::byte> device_bytes() const;
    [[nodiscard]] ByteSource source() const { return source_of(kernels_, device_bytes()); }
    void restore(GrainLedger ledger, Units units, uint64_t rounding_seed = 0, int64_t loss_scale = 1);

    // What workers exchange: the integers of exact sums, in the flat order of the weights, gaps included. Host memory.
    [[nodiscard]] int64_t elements() const { return flat_elements_; }
    // A copy of some of them, from element `first` on.
    void read_integers(int64_t first, std::span<int64_t> into) const;
    // Adds another part of the same window, opened with the same units: all its integers, and its ledger.
    void add(std::span<const int64_t> integers, const GrainLedger& ledger);
    // Takes everybody's sums in the place of its own part.
    void replace(std::span<const int64_t> integers, GrainLedger ledger);
    // The same piece by piece: first all integers, then the ledger that belongs to them.
    void write_integers(int64_t first, std::span<const int64_t> from);
    void take_ledger(GrainLedger ledger);

    // Where everybody's sums of a range are elsewhere than in this one, in host memory, and all grains together count so many
    // tokens: the squares of its blocks in the mean gradient (norm_of_ranges.h). The device is a processor.
    [[nodiscard]] std::vector<double> squares_of(const ElementRange& range, std::span<const int64_t> totals,
                                                 int64_t counted_tokens) const;

    // The mean over the window's counted tokens, as a view. Must not outlive the sum.
    [[nodiscard]] MeanGradient mean() const;

private:
    void require_whole(std::span<const int64_t> integers) const;
    void require_elements(int64_t first, int64_t count) const;
    [[nodiscard]] std::byte* start_of(const SumTensor& tensor) const;
    void add_waiting() const;
    void complete() const;
    void forget();
    [[nodiscard]] int64_t place_bytes() const;
    [[nodiscard]] float* waiting_place(int64_t grain, const SumTensor& tensor) const;

    std::vector<SumTensor> tensors_;
    int64_t flat_elements_;
    SumKind kind_;
    Kernels& kernels_;
    Arena& memory_;
    Arena::Block sums_;
    Units units_;
    uint64_t rounding_seed_ = 0;
    int64_t loss_scale_ = 1;
    // Micro-batches whose records are still on the device, and what came down: reading completes it.
    mutable IncompleteRecords incomplete_;
    mutable GrainLedger ledger_;
    // Gradients that wait: a place for each of so many grains, then what the device needs to add them.
    Arena::Block waiting_memory_;
    int64_t places_ = 0;
    mutable int64_t places_taken_ = 0;
    int64_t first_place_ = 0;       // of the micro-batch that began last; its grains wait one behind another
    std::vector<int64_t> numbers_;  // of its grains; none where they do not wait

    friend class MeanGradient;
};

// A window's mean gradient: sums, units and one factor. Owns nothing.
class MeanGradient {
public:
    [[nodiscard]] MeanView of(int64_t tensor) const;
    // The same times a factor, as clipping asks.
    [[nodiscard]] MeanGradient scaled(double factor) const;
    // The norm over all tensors, in tensor order, in double.
    [[nodiscard]] double norm(Kernels& kernels) const;

private:
    friend class GradientSum;
    MeanGradient(const GradientSum& sum, double factor) : sum_(&sum), factor_(factor) {}
    const GradientSum* sum_;
    double factor_;
};

// Some elements of a gradient on a device, as numbers on the host.
[[nodiscard]] std::vector<double> numbers_of(Kernels& kernels, const MeanView& view, int64_t first, int64_t count);
[[nodiscard]] inline std::vector<double> numbers_of(Kernels& kernels, const MeanView& view) {
    return numbers_of(kernels, view, 0, view.elements);
}

}  // namespace accrue
