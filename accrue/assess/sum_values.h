#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "accrue/accumulate/gradient_sum.h"

namespace accrue {

// Sums of a window as numbers, whatever their kind: to compare them and to calculate with them. A view of the sums.
struct SumValues {
    SumValues(const GradientSum& sum, Kernels& kernels);

    // So many elements of a tensor from `first` on, as sums over counted tokens.
    void read(int64_t tensor, int64_t first, std::span<double> values) const;

    Kernels* kernels;
    SumKind kind;
    std::vector<SumTensor> tensors;
    std::vector<MeanView> views;  // one for each tensor, with its unit as the factor
};

// A copy of sums where they lie themselves, to hold them while others are computed in their place.
struct SumCopy {
    SumCopy(const GradientSum& sum, Kernels& kernels);
    // Read through a device on the same arena: not always the one that computed them.
    [[nodiscard]] SumValues values(Kernels& kernels) const;

private:
    Arena::Block bytes_;
    SumValues values_;
};

// The sum of the squares of fp32 numbers.
[[nodiscard]] double squares_of(const ByteSource& floats);

// How one gradient stands to another, wanted one.
struct GradientDifference {
    double relative_error = 0;  // |got - wanted| / |wanted|
    double ratio = 1;           // the factor by which the wanted one comes nearest
    double rest = 0;            // |got - ratio * wanted| / |wanted|: 0 = one is a multiple of the other
    int64_t tensor = 0;         // where they differ most, by its own norm
};
[[nodiscard]] GradientDifference difference_of(const SumValues& got, const SumValues& wanted);

// A checksum of what a window's sums hold: units, sums, each grain's loss and count, and with exact sums its records too.
// Of the others only the sums are promised: their micro-batches hold the rows of a tied embedding back together, so that a
// grain's squares are added in an order that depends on the cut.
[[nodiscard]] std::string checksum_of(const GradientSum& sum);

// Two computations of one grain, compared bit by bit, so that NaN is the same as NaN: its loss and count, or one tensor's
// record.
[[nodiscard]] bool same_loss(const GrainLedger& a, const GrainLedger& b, int64_t grain);
[[nodiscard]] bool same_record(const GrainLedger& a, const GrainLedger& b, int64_t grain, int64_t tensor);

}  // namespace accrue
