#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/accumulate/element_ranges.h"
#include "accrue/accumulate/gradient_sum.h"

namespace accrue {

// The norm of a window's mean gradient where nobody has all of its sums: whoever has a range's says the squares of its blocks
// (kRangeBlock), and those of all ranges, one behind another, are the norm, with the bits of MeanGradient::norm() of a
// processor, however many share the ranges.

// Where a sum's tensors lie.
[[nodiscard]] std::vector<FlatTensor> flat_tensors(const GradientSum& sum);

// The squares of a range's blocks, where `totals` are its sums (host memory) and all grains together count so many tokens. The
// device is a processor, and `sum` says the units.
[[nodiscard]] std::vector<double> squares_of(const GradientSum& sum, Kernels& kernels, const ElementRange& range,
                                             std::span<const int64_t> totals, int64_t counted_tokens);
// From the squares of all blocks of all tensors, ascending.
[[nodiscard]] double norm_of_squares(std::span<const FlatTensor> tensors, std::span<const double> squares);

}  // namespace accrue
