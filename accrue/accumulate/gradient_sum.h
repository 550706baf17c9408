#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/accumulate/ledger.h"
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
    // Takes flat_elements sums from the arena of the kernels.
    GradientSum(std::vector<SumTensor> tensors, int64_t flat_elements, SumKind kind, Kernels& kernels);

    // Begins a window: zero sums, no grain finished. Units are needed for exact sums only, and a seed of this step for
    // stochastic ones only.
    void open(int64_t grains, Units units, uint64_t rounding_seed = 0);

    [[nodiscard]] SumView sum_of(int64_t grain, int64_t tensor) override;
    void finish_grain(int64_t grain, double loss_sum, int64_t counted_tokens) override;

    // Adds another part of the same window. Exact sums only: all others depend on the order.
    void add(const GradientSum& other);

    [[nodiscard]] SumKind kind() const { return kind_; }
    [[nodiscard]] const Units& units() const { return units_; }
    [[nodiscard]] const GrainLedger& ledger() const { return ledger_; }
    [[nodiscard]] std::span<const SumTensor> tensors() const { return tensors_; }
    // The sums themselves, to be saved and to be filled again from what was saved.
    [[nodiscard]] std::span<std::byte> bytes() const;
    void restore(GrainLedger ledger, Units units, uint64_t rounding_seed = 0);

    // What workers exchange: the integers of exact sums, in the flat order of the weights, gaps included. Host memory.
    [[nodiscard]] int64_t elements() const { return flat_elements_; }
    // A copy of some of them, from element `first` on.
    void read_integers(int64_t first, std::span<int64_t> into) const;
    // Adds another part of the same window, opened with the same units: all its integers, and its ledger.
    void add(std::span<const int64_t> integers, const GrainLedger& ledger);
    // Takes everybody's sums in the place of its own part.
    void replace(std::span<const int64_t> integers, GrainLedger ledger);

    // The mean over the window's counted tokens, as a view. Must not outlive the sum.
    [[nodiscard]] MeanGradient mean() const;

private:
    void require_whole(std::span<const int64_t> integers) const;
    [[nodiscard]] std::byte* start_of(const SumTensor& tensor) const;

    std::vector<SumTensor> tensors_;
    int64_t flat_elements_;
    SumKind kind_;
    Kernels& kernels_;
    Arena::Block sums_;
    Units units_;
    uint64_t rounding_seed_ = 0;
    GrainLedger ledger_;

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

}  // namespace accrue
