#include "accrue/kernels/cuda/four.cuh"
#include "accrue/kernels/cuda/product_own.cuh"

// Products in fp32: each element is one chain of fmaf along the depth, in ascending order.
namespace accrue::cuda::own {
namespace {

constexpr int kThreads = 256;  // 16 x 16
constexpr int kSide = 16;
constexpr int kDepth = 8;  // of what is in shared memory at a time
constexpr int kPad = 4;    // so that turned pieces go to different banks

// Where a thread's four neighbouring elements of a factor's tile lie. Along the depth they are one row's, else one depth's.
template <bool kAlongDepth, int kTile>
struct Piece {
    static constexpr int kPieces = kTile * kDepth / 4;
    int row = kAlongDepth ? static_cast<int>(threadIdx.x) / 2 : static_cast<int>(threadIdx.x) % (kTile / 4) * 4;
    int depth = kAlongDepth ? static_cast<int>(threadIdx.x) % 2 * 4 : static_cast<int>(threadIdx.x) / (kTile / 4);

    // What is beyond the matrix is 0.
    __device__ Four<float> load(const float* factor, int64_t stride, int64_t first_row, int64_t rows,
                                int64_t first_depth, int64_t depths, bool is_aligned) const {
        const int64_t r = first_row + row;
        const int64_t d = first_depth + depth;
        const int64_t line = kAlongDepth ? r : d;
        const int64_t place = kAlongDepth ? d : r;
        if (threadIdx.x >= kPieces || line >= (kAlongDepth ? rows : depths)) {
            return {};
        }
        const int64_t left = (kAlongDepth ? depths : rows) - place;
        return load_four<Reuse::soon>(factor + line * stride + place, left, is_aligned);
    }
    __device__ void store(float (&tile)[kDepth][kTile + kPad], const Four<float>& values) const {
        if (threadIdx.x >= kPieces) {
            return;
        }
        if constexpr (kAlongDepth) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                tile[depth + e][row] = values.at[e];
            }
        } else {
            store_four<Reuse::soon>(&tile[depth][row], values);
        }
    }
};

// A thread's rows (or columns) of a tile: four neighbours from 4 * place on, and four more half a large tile later.
template <int kEach>
__device__ void load_own(float (&values)[kEach], const float* line, int place) {
#pragma unroll
    for (int part = 0; part < kEach / 4; ++part) {
        const Four<float> four = load_four<Reuse::soon>(line + part * 4 * kSide + place * 4);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            values[part * 4 + e] = four.at[e];
        }
    }
}
__device__ int64_t own_place(int place, int i) {
    return i / 4 * 4 * kSide + place * 4 + i % 4;
}

template <bool kLeftAlongDepth, bool kRightAlongDepth, int kTile>
__global__ void __launch_bounds__(kThreads) fp32_product_kernel(const ProductArgs args) {
    constexpr int kEach = kTile / kSide;
    __shared__ __align__(16) float left_tile[2][kDepth][kTile + kPad];
    __shared__ __align__(16) float right_tile[2][kDepth][kTile + kPad];
    const float* const left = static_cast<const float*>(args.left) + blockIdx.z * args.left_batch_stride;
    const float* const right = static_cast<const float*>(args.right) + blockIdx.z * args.right_batch_stride;
    const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kTile;
    const int64_t first_column = static_cast<int64_t>(blockIdx.y) * kTile;
    const Piece<kLeftAlongDepth, kTile> left_piece;
    const Piece<kRightAlongDepth, kTile> right_piece;
    const int column_place = threadIdx.x % kSide;
    const int row_place = threadIdx.x / kSide;

    Four<float> next_left;
    Four<float> next_right;
    const auto load_next = [&](int64_t depth) {
        next_left =
            left_piece.load(left, args.left_stride, first_row, args.rows, depth, args.depth, args.left_is_aligned != 0);
        next_right = right_piece.load(right, args.right_stride, first_column, args.columns, depth, args.depth,
                                      args.right_is_aligned != 0);
    };
    const auto store_next = [&](int buffer) {
        left_piece.store(left_tile[buffer], next_left);
        right_piece.store(right_tile[buffer], next_right);
    };

    float sums[kEach][kEach] = {};
    load_next(0);
    store_next(0);
    __syncthreads();
    int buffer = 0;
    for (int64_t depth = 0; depth < args.depth; depth += kDepth) {
        const bool has_next = depth + kDepth < args.depth;
        if (has_next) {
            load_next(depth + kDepth);
        }
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
            float rows[kEach];
            float columns[kEach];
            load_own(rows, left_tile[buffer][d], row_place);
            load_own(columns, right_tile[buffer][d], column_place);
#pragma unroll
            for (int r = 0; r < kEach; ++r) {
#pragma unroll
                for (int c = 0; c < kEach; ++c) {
                    sums[r][c] = fmaf(rows[r], columns[c], sums[r][c]);
                }
            }
        }
        if (has_next) {
            store_next(buffer ^ 1);
        }
        __syncthreads();
        buffer ^= 1;
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
#pragma unroll
        for (int c = 0; c < kEach; ++c) {
            store_sum(args, first_row + own_place(row_place, r), first_column + own_place(column_place, c), sums[r][c]);
        }
    }
}

template <int kTile>
void put_tiles(Tape& tape, const Product& product) {
    const Shape shape{.blocks = blocks_of(product, kTile), .threads = kThreads};
    const ProductArgs args = args_of(product);
    const bool right_along_depth = product.right.along_depth;
    if (product.left.along_depth) {
        tape.launch(
            right_along_depth ? fp32_product_kernel<true, true, kTile> : fp32_product_kernel<true, false, kTile>, shape,
            args);
    } else {
        tape.launch(
            right_along_depth ? fp32_product_kernel<false, true, kTile> : fp32_product_kernel<false, false, kTile>,
            shape, args);
    }
}

}  // namespace

void put_fp32_product(Tape& tape, const Product& product) {
    if (tiles_of(product, kLargeTile) >= kEnoughTiles) {
        put_tiles<kLargeTile>(tape, product);
    } else {
        put_tiles<kSmallTile>(tape, product);
    }
}

}  // namespace accrue::cuda::own
