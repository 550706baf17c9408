#pragma once

#include <cstddef>
#include <vector>

#include <cublasLt.h>

#include "accrue/kernels/cuda/product.h"

namespace accrue::cuda {

// All of a product but its addresses: what decides which algorithms there are for it.
struct ProductShape {
    DType dtype = DType::bf16;
    DType output_dtype = DType::bf16;
    bool left_along_depth = true;
    bool right_along_depth = true;
    bool has_bias = false;
    bool has_residual = false;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t depth = 0;
    int64_t batch = 1;
    int64_t left_stride = 0;
    int64_t left_batch_stride = 0;
    int64_t right_stride = 0;
    int64_t right_batch_stride = 0;
    int64_t output_stride = 0;
    int64_t output_batch_stride = 0;
    int64_t residual_stride = 0;

    bool operator==(const ProductShape&) const = default;
};
[[nodiscard]] ProductShape shape_of(const Product& product);
// For an error.
[[nodiscard]] std::string text_of(const ProductShape& shape);

struct ProductShapeHash {
    size_t operator()(const ProductShape& shape) const;
};

struct ProductPlaces {
    const void* left = nullptr;
    const void* right = nullptr;
    void* output = nullptr;
    const void* bias = nullptr;
    const void* residual = nullptr;
};
[[nodiscard]] ProductPlaces places_of(const Product& product);

using Algorithm = cublasLtMatmulAlgo_t;

// The library and what its products have in common.
struct Library {
    cublasLtHandle_t handle = nullptr;
    std::byte* workspace = nullptr;
    int64_t workspace_bytes = 0;
};

// A product as cuBLASLt knows it. The library counts rows down a column, so it is asked for the transposed product: its A is
// our right factor, its B our left one.
class LibraryProduct {
public:
    explicit LibraryProduct(const ProductShape& shape);

    // Algorithms that obey the rule of bits (products.h), the one that the library prefers in front.
    [[nodiscard]] std::vector<Algorithm> candidates(const Library& library);
    // Whether an algorithm, found for another shape, can compute this one.
    [[nodiscard]] bool takes(const Library& library, const Algorithm& algorithm);
    // Puts it on the stream; an answer other than success: this algorithm cannot do it.
    [[nodiscard]] cublasStatus_t run(const Library& library, const Algorithm& algorithm, const ProductPlaces& places,
                                     cudaStream_t stream);
    [[nodiscard]] const ProductShape& shape() const { return shape_; }

private:
    template <class T>
    void set(cublasLtMatmulDescAttributes_t attribute, const T& value);
    void set_layout(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t rows, int64_t columns, int64_t stride,
                    int64_t batch_stride);

    ProductShape shape_;
    cublasLtMatmulDescOpaque_t description_{};
    cublasLtMatrixLayoutOpaque_t a_{};
    cublasLtMatrixLayoutOpaque_t b_{};
    cublasLtMatrixLayoutOpaque_t c_{};
    cublasLtMatrixLayoutOpaque_t d_{};
};

}  // namespace accrue::cuda
