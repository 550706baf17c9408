#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace accrue {

// Some elements of the flat gradients, in whose order sums and moments lie.
struct ElementRange {
    int64_t first = 0;
    int64_t count = 0;

    [[nodiscard]] int64_t end() const { return first + count; }
    bool operator==(const ElementRange&) const = default;
};

// Where a trained tensor lies among them.
struct FlatTensor {
    int64_t offset = 0;
    int64_t elements = 0;
};

// Elements of a tensor, counted from its first one, that are never parted: a norm is summed over such blocks (on processors),
// and a block of moments in 8 bits divides it.
inline constexpr int64_t kRangeBlock = 16384;

// Cuts the flat gradients into so many ranges, one behind another and as large as each other as blocks allow; small models have
// empty ones. Tensors are ascending. The same for everybody, whoever takes part.
[[nodiscard]] std::vector<ElementRange> cut_into_ranges(std::span<const FlatTensor> tensors, int64_t flat_elements,
                                                        int64_t ranges);

// What of a tensor lies in a range: it begins with a block, and ends with one or with the tensor.
struct TensorPiece {
    int64_t tensor = 0;
    int64_t first = 0;  // of the tensor's elements
    int64_t count = 0;

    bool operator==(const TensorPiece&) const = default;
};
// All of them, ascending. Gaps between tensors are in none.
[[nodiscard]] std::vector<TensorPiece> pieces_in(std::span<const FlatTensor> tensors, const ElementRange& range);

}  // namespace accrue
