#pragma once

#include "accrue/kernels/cuda/device.cuh"
#include "accrue/kernels/cuda/product.h"
#include "accrue/kernels/cuda/tape.h"

// What our own product kernels have in common. Their blocks have tiles of the output of either of two sizes: the size is chosen
// by how many tiles there are, and changes no bit, because an element is one sum along the depth in both.
namespace accrue::cuda::own {

inline constexpr int64_t kLargeTile = 128;
inline constexpr int64_t kSmallTile = 64;

// Fewer large tiles than this leave most of a GPU without work.
inline constexpr int64_t kEnoughTiles = 100;

// Product as kernels take it.
struct ProductArgs {
    const void* left = nullptr;
    const void* right = nullptr;
    void* output = nullptr;
    const float* bias = nullptr;
    const float* residual = nullptr;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t depth = 0;
    int64_t left_stride = 0;
    int64_t left_batch_stride = 0;
    int64_t right_stride = 0;
    int64_t right_batch_stride = 0;
    int64_t output_stride = 0;
    int64_t output_batch_stride = 0;
    int64_t residual_stride = 0;
    int64_t output_dtype = 0;
    int64_t left_is_aligned = 0;  // its lines may be read in pieces of 16 bytes
    int64_t right_is_aligned = 0;
};

[[nodiscard]] inline ProductArgs args_of(const Product& product) {
    return {.left = product.left.data,
            .right = product.right.data,
            .output = product.output,
            .bias = product.bias,
            .residual = product.residual,
            .rows = product.rows,
            .columns = product.columns,
            .depth = product.depth,
            .left_stride = product.left.stride,
            .left_batch_stride = product.left.batch_stride,
            .right_stride = product.right.stride,
            .right_batch_stride = product.right.batch_stride,
            .output_stride = product.output_stride,
            .output_batch_stride = product.output_batch_stride,
            .residual_stride = product.residual_stride,
            .output_dtype = static_cast<int64_t>(product.output_dtype),
            .left_is_aligned = is_aligned(product.left, product.dtype) ? 1 : 0,
            .right_is_aligned = is_aligned(product.right, product.dtype) ? 1 : 0};
}

[[nodiscard]] inline int64_t tiles_of(const Product& product, int64_t tile) {
    return (product.rows + tile - 1) / tile * ((product.columns + tile - 1) / tile) * product.batch;
}

// Block (x, y, z) has tile x of the rows and y of the columns of product z: blocks that run together share columns, which are
// a weight's.
[[nodiscard]] inline dim3 blocks_of(const Product& product, int64_t tile) {
    return {static_cast<uint32_t>((product.rows + tile - 1) / tile),
            static_cast<uint32_t>((product.columns + tile - 1) / tile), static_cast<uint32_t>(product.batch)};
}

__device__ inline void store_as(void* output, int64_t dtype, int64_t place, float value) {
    switch (static_cast<DType>(dtype)) {
        case DType::bf16:
            static_cast<bf16*>(output)[place] = from_float<bf16>(value);
            break;
        case DType::fp16:
            static_cast<fp16*>(output)[place] = from_float<fp16>(value);
            break;
        default:
            static_cast<float*>(output)[place] = value;
    }
}

// Adds what is to be added to a sum, and stores it if there is such an element.
__device__ inline void store_sum(const ProductArgs& args, int64_t row, int64_t column, float sum) {
    if (row >= args.rows || column >= args.columns) {
        return;
    }
    if (args.bias != nullptr) {
        sum += args.bias[column];
    }
    if (args.residual != nullptr) {
        sum += args.residual[row * args.residual_stride + column];
    }
    store_as(args.output, args.output_dtype, blockIdx.z * args.output_batch_stride + row * args.output_stride + column,
             sum);
}

void put_fp32_product(Tape& tape, const Product& product);
void put_narrow_product(Tape& tape, const Product& product);

}  // namespace accrue::cuda::own
