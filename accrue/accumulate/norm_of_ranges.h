#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/accumulate/element_ranges.h"
#include "accrue/accumulate/gradient_sum.h"

namespace accrue {

// The norm of a window's mean gradient where nobody has all of its sums: whoever has a range's says the squares of its blocks
// (kRangeBlock; GradientSum::squares_of), and those of all ranges, one behind another, are the norm, with the bits of MeanGradient::norm() of a
// processor, however many share the ranges.

// Where a sum's tensors lie.
[[nodiscard]] std::vector<FlatTensor> flat_tensors(const GradientSum& sum);

// Blocks of a range: as many squares.
[[nodiscard]] int64_t blocks_in(std::span<const FlatTensor> tensors, const ElementRange& range);

// From the squares of all blocks of all tensors, ascending.
[[nodiscard]] double norm_of_squares(std::span<const FlatTensor> tensors, std::span<const double> squares);

}  // namespace accrue
