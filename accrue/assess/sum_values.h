#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "accrue/accumulate/gradient_sum.h"

namespace accrue {

// Sums of a window as numbers, whatever their kind: to compare them and to calculate with them. A view of the sums.
struct SumValues {
    SumValues(GradientSum& sum);

    // So many elements of a tensor from `first` on, as sums over counted tokens.
    void read(int64_t tensor, int64_t first, std::span<double> values) const;

    SumKind kind;
    std::vector<SumTensor> tensors;
    std::vector<MeanView> views;  // one for each tensor, with its unit as the factor
};

// A copy of sums, to hold them while others are computed in their place.
struct SumCopy {
    explicit SumCopy(GradientSum& sum);
    [[nodiscard]] SumValues values() const;

private:
    std::vector<std::byte> bytes_;
    SumValues values_;
};

// How one gradient stands to another, wanted one.
struct GradientDifference {
    double relative_error = 0;  // |got - wanted| / |wanted|
    double ratio = 1;           // the factor by which the wanted one comes nearest
    double rest = 0;            // |got - ratio * wanted| / |wanted|: 0 = one is a multiple of the other
    int64_t tensor = 0;         // where they differ most, by its own norm
};
[[nodiscard]] GradientDifference difference_of(const SumValues& got, const SumValues& wanted);

// A checksum of all that a window's sums hold: units, sums, each grain's loss, count and records.
[[nodiscard]] std::string checksum_of(const GradientSum& sum);

}  // namespace accrue
