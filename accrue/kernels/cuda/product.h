#pragma once

#include "accrue/tensor/dtype.h"

namespace accrue::cuda {

// One factor of a product: a matrix whose lines are `stride` elements apart.
struct Factor {
    const void* data = nullptr;
    int64_t stride = 0;
    bool along_depth =
        true;  // a line is one row (or column) of the result, all of its depth; else one depth of all of them
    int64_t batch_stride = 0;  // elements between one product of a batch and the next
};

// output[r, c] = sum over k of left[r, k] * right[c, k]  (+ bias[c])  (+ residual[r, c]), for each product of a batch. The
// library's kernels and ours both take it. Sums in fp32; an output is rounded once.
// Repeats: a row's bits depend neither on the rows around it nor on how many they are, a product's not on its batch.
struct Product {
    DType dtype = DType::fp32;  // of both factors
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t depth = 0;
    int64_t batch = 1;
    Factor left;
    Factor right;
    void* output = nullptr;
    DType output_dtype = DType::fp32;
    int64_t output_stride = 0;
    int64_t output_batch_stride = 0;
    const float* bias = nullptr;
    // The bias in the output's dtype and on kProductAlignment, where the library computes this product: it takes no other.
    const void* library_bias = nullptr;
    const float* residual = nullptr;  // beside an fp32 output
    int64_t residual_stride = 0;
};

// What matrices of the library must lie on, and the distances between their lines.
inline constexpr int64_t kProductAlignment = 16;

[[nodiscard]] inline bool is_aligned(const void* place) {
    return reinterpret_cast<uintptr_t>(place) % kProductAlignment == 0;
}
[[nodiscard]] inline bool is_aligned(const void* place, int64_t stride, int64_t batch_stride, DType dtype) {
    const int64_t elements = kProductAlignment / bytes_of(dtype);
    return is_aligned(place) && stride % elements == 0 && batch_stride % elements == 0;
}
[[nodiscard]] inline bool is_aligned(const Factor& factor, DType dtype) {
    return is_aligned(factor.data, factor.stride, factor.batch_stride, dtype);
}

// Some rows and columns of the output.
[[nodiscard]] inline Product part_of(const Product& whole, int64_t first_row, int64_t rows, int64_t first_column,
                                     int64_t columns) {
    const auto moved = [](auto* place, int64_t elements, DType dtype) {
        const auto address = reinterpret_cast<uintptr_t>(place) + static_cast<uintptr_t>(elements * bytes_of(dtype));
        return place == nullptr ? nullptr : reinterpret_cast<decltype(place)>(address);
    };
    const auto lines = [](const Factor& factor, int64_t first) {
        return factor.along_depth ? first * factor.stride : first;
    };
    Product part = whole;
    part.rows = rows;
    part.columns = columns;
    part.left.data = moved(whole.left.data, lines(whole.left, first_row), whole.dtype);
    part.right.data = moved(whole.right.data, lines(whole.right, first_column), whole.dtype);
    part.output = moved(whole.output, first_row * whole.output_stride + first_column, whole.output_dtype);
    part.bias = moved(whole.bias, first_column, DType::fp32);
    part.library_bias = moved(whole.library_bias, first_column, whole.output_dtype);
    part.residual = moved(whole.residual, first_row * whole.residual_stride + first_column, DType::fp32);
    return part;
}

}  // namespace accrue::cuda
