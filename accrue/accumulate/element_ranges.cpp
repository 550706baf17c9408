#include "accrue/accumulate/element_ranges.h"

#include <algorithm>

namespace accrue {
namespace {

// The last beginning of a block that is not behind an element.
int64_t block_at(std::span<const FlatTensor> tensors, int64_t element) {
    const auto behind = std::upper_bound(tensors.begin(), tensors.end(), element,
                                         [](int64_t place, const FlatTensor& each) { return place < each.offset; });
    if (behind == tensors.begin()) {
        return 0;
    }
    const FlatTensor& tensor = *(behind - 1);
    const int64_t last_block = std::max<int64_t>(0, tensor.elements - 1) / kRangeBlock;
    return tensor.offset + std::min((element - tensor.offset) / kRangeBlock, last_block) * kRangeBlock;
}

}  // namespace

std::vector<ElementRange> cut_into_ranges(std::span<const FlatTensor> tensors, int64_t flat_elements, int64_t ranges) {
    std::vector<ElementRange> cut;
    int64_t first = 0;
    for (int64_t range = 1; range <= ranges; ++range) {
        // The block in which the cut falls goes to the side that has more of it.
        const int64_t wanted = flat_elements / ranges * range + flat_elements % ranges * range / ranges;
        const int64_t half = std::min(wanted + kRangeBlock / 2, flat_elements);
        const int64_t end = range == ranges ? flat_elements : std::max(first, block_at(tensors, half));
        cut.push_back({.first = first, .count = end - first});
        first = end;
    }
    return cut;
}

std::vector<TensorPiece> pieces_in(std::span<const FlatTensor> tensors, const ElementRange& range) {
    std::vector<TensorPiece> pieces;
    for (size_t number = 0; number < tensors.size(); ++number) {
        const FlatTensor& tensor = tensors[number];
        const int64_t first = std::max(tensor.offset, range.first);
        const int64_t end = std::min(tensor.offset + tensor.elements, range.end());
        if (first < end) {
            pieces.push_back(
                {.tensor = static_cast<int64_t>(number), .first = first - tensor.offset, .count = end - first});
        }
    }
    return pieces;
}

}  // namespace accrue
