#include "accrue/accumulate/norm_of_ranges.h"

#include <algorithm>
#include <cmath>

#include "accrue/base/error.h"

namespace accrue {
namespace {

int64_t blocks_of(int64_t elements) {
    return (elements + kRangeBlock - 1) / kRangeBlock;
}

}  // namespace

std::vector<FlatTensor> flat_tensors(const GradientSum& sum) {
    std::vector<FlatTensor> tensors;
    for (const SumTensor& tensor : sum.tensors()) {
        tensors.push_back({.offset = tensor.offset, .elements = tensor.rows * tensor.columns});
    }
    return tensors;
}

int64_t blocks_in(std::span<const FlatTensor> tensors, const ElementRange& range) {
    int64_t blocks = 0;
    for (const TensorPiece& piece : pieces_in(tensors, range)) {
        blocks += blocks_of(piece.count);
    }
    return blocks;
}

// A block at a time is a gradient by itself, whose norm is the sum of its squares.
std::vector<double> GradientSum::squares_of(const ElementRange& range, std::span<const int64_t> totals,
                                            int64_t counted_tokens) const {
    const std::vector<FlatTensor> tensors = flat_tensors(*this);
    const std::vector<TensorPiece> pieces = pieces_in(tensors, range);
    std::vector<double> all;
    if (pieces.empty()) {
        return all;
    }
    const int64_t longest =
        std::ranges::max_element(pieces, {}, [](const TensorPiece& piece) { return piece.count; })->count;
    const auto block = take_matrix<int64_t>(kernels_.arena(), 1, std::min(longest, kRangeBlock));
    const auto squares = take_matrix<double>(kernels_.arena(), 1, 1);
    for (const auto& [tensor, first, count] : pieces) {
        const int64_t before = tensors[static_cast<size_t>(tensor)].offset + first - range.first;
        for (int64_t done = 0; done < count; done += kRangeBlock) {
            const int64_t elements = std::min(kRangeBlock, count - done);
            upload(kernels_, totals.subspan(static_cast<size_t>(before + done), static_cast<size_t>(elements)),
                   block.view.data);
            const MeanView mean{.kind = SumKind::exact,
                                .data = block.view.data,
                                .elements = elements,
                                .factor = units_.unit(tensor) * (1.0 / static_cast<double>(counted_tokens))};
            kernels_.run(op::SquaredNorm{.gradients = std::span(&mean, 1), .result = squares.view});
            all.push_back(downloaded(kernels_, squares.view).front());
        }
    }
    return all;
}

double norm_of_squares(std::span<const FlatTensor> tensors, std::span<const double> squares) {
    double all = 0;
    size_t next = 0;
    for (const FlatTensor& tensor : tensors) {
        const auto blocks = static_cast<size_t>(blocks_of(tensor.elements));
        if (blocks > squares.size() - next) {
            throw Error(cat("the squares of ", squares.size(), " blocks are too few for a model's gradient"));
        }
        double of_tensor = 0;
        for (size_t block = 0; block < blocks; ++block) {
            of_tensor += squares[next++];
        }
        all += of_tensor;
    }
    return std::sqrt(all);
}

}  // namespace accrue
