#include "accrue/kernels/cuda/instructions.cuh"
#include "accrue/kernels/cuda/product_own.cuh"

// Products of bf16 or fp16 factors by tensor cores: each element is one sum along the depth, 16 at a time and in ascending
// order, in fp32. What is missing in the last 32 is 0.
namespace accrue::cuda::own {
namespace {

constexpr int kDepth = 32;  // of what is in shared memory at a time
constexpr int kStages = 3;  // of which all but one are on their way
constexpr int kPiece = 8;   // elements of 16 bytes
constexpr int kWarpColumns = 32;

constexpr int threads_of(int tile) {
    return 2 * tile;
}

// A factor's tile in shared memory, its lines as in the matrix and padded, so that eight of them lie in different banks.
template <bool kAlongDepth, int kTile>
struct NarrowTile {
    static constexpr int kLines = kAlongDepth ? kTile : kDepth;
    static constexpr int kLength = kAlongDepth ? kDepth : kTile;
    static constexpr int kPitch = kLength + kPiece;
    static constexpr int kElements = kLines * kPitch;
};

// Where it comes from: rows are rows of the result or its columns.
template <class T>
struct Source {
    const T* factor;
    int64_t stride;
    int64_t first_row;
    int64_t rows;
    int64_t depth;
    bool is_aligned;
};

// Copies the first `left` of eight elements and fills the others with zeros; aligned ones arrive later.
template <class T>
__device__ void copy_piece(T* to, const T* from, int64_t left, bool is_aligned) {
    const int count = left < 0 ? 0 : left > kPiece ? kPiece : static_cast<int>(left);
    if (is_aligned) {
        copy_16_bytes(to, from, count * static_cast<int>(sizeof(T)));
        return;
    }
    struct alignas(16) Eight {
        uint16_t at[kPiece];
    };
    Eight values;
#pragma unroll
    for (int e = 0; e < kPiece; ++e) {
        values.at[e] = e < count ? reinterpret_cast<const uint16_t*>(from)[e] : uint16_t{0};
    }
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&values);
}

template <bool kAlongDepth, int kTile, class T>
__device__ void copy_tile(T* tile, const Source<T>& source, int64_t first_depth) {
    using Tile = NarrowTile<kAlongDepth, kTile>;
    constexpr int kPieces = Tile::kLength / kPiece;
    const int64_t first_line = kAlongDepth ? source.first_row : first_depth;
    const int64_t first_place = kAlongDepth ? first_depth : source.first_row;
    const int64_t lines = kAlongDepth ? source.rows : source.depth;
    const int64_t length = kAlongDepth ? source.depth : source.rows;
    static_assert(Tile::kLines * kPieces % threads_of(kTile) == 0);
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kLines * kPieces; i += threads_of(kTile)) {
        const int line = i / kPieces;
        const int place = i % kPieces * kPiece;
        const int64_t left = first_line + line < lines ? length - first_place - place : 0;
        // Where nothing is copied, no address beyond the matrix is named either.
        const int64_t from = left > 0 ? (first_line + line) * source.stride + first_place + place : 0;
        copy_piece(tile + line * Tile::kPitch + place, source.factor + from, left, source.is_aligned);
    }
}

// Rows `row` to row + 15 and depths d to d + 15 of the left tile, as an a of multiply_add.
template <bool kAlongDepth, int kTile, class T>
__device__ void load_left(uint32_t (&words)[4], const T* tile, int row, int d) {
    constexpr int kPitch = NarrowTile<kAlongDepth, kTile>::kPitch;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kAlongDepth) {
        load_matrices(words, tile + (row + lane % 16) * kPitch + d + lane / 16 * 8);
    } else {
        load_transposed(words, tile + (d + lane / 16 * 8 + lane % 8) * kPitch + row + lane / 8 % 2 * 8);
    }
}

// Columns `column` to column + 15 and depths d to d + 15 of the right tile: a b for the first eight columns, then one for the
// others.
template <bool kAlongDepth, int kTile, class T>
__device__ void load_right(uint32_t (&words)[4], const T* tile, int column, int d) {
    constexpr int kPitch = NarrowTile<kAlongDepth, kTile>::kPitch;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kAlongDepth) {
        load_matrices(words, tile + (column + lane / 16 * 8 + lane % 8) * kPitch + d + lane / 8 % 2 * 8);
    } else {
        load_transposed(words, tile + (d + lane % 16) * kPitch + column + lane / 16 * 8);
    }
}

template <bool kLeftAlongDepth, bool kRightAlongDepth, int kTile>
constexpr int stage_elements() {
    return NarrowTile<kLeftAlongDepth, kTile>::kElements + NarrowTile<kRightAlongDepth, kTile>::kElements;
}

// A warp has half the tile's rows and 32 of its columns.
template <class T, bool kLeftAlongDepth, bool kRightAlongDepth, int kTile>
__global__ void __launch_bounds__(threads_of(kTile)) narrow_product_kernel(const ProductArgs args) {
    constexpr int kRowPieces = kTile / 2 / 16;
    constexpr int kColumnPieces = kWarpColumns / 8;
    constexpr int kStageElements = stage_elements<kLeftAlongDepth, kRightAlongDepth, kTile>();
    T* const memory = reinterpret_cast<T*>(dynamic_shared());
    const auto left_tile = [&](int64_t stage) { return memory + stage % kStages * kStageElements; };
    const auto right_tile = [&](int64_t stage) {
        return left_tile(stage) + NarrowTile<kLeftAlongDepth, kTile>::kElements;
    };
    const Source<T> left{.factor = static_cast<const T*>(args.left) + blockIdx.z * args.left_batch_stride,
                         .stride = args.left_stride,
                         .first_row = static_cast<int64_t>(blockIdx.x) * kTile,
                         .rows = args.rows,
                         .depth = args.depth,
                         .is_aligned = args.left_is_aligned != 0};
    const Source<T> right{.factor = static_cast<const T*>(args.right) + blockIdx.z * args.right_batch_stride,
                          .stride = args.right_stride,
                          .first_row = static_cast<int64_t>(blockIdx.y) * kTile,
                          .rows = args.columns,
                          .depth = args.depth,
                          .is_aligned = args.right_is_aligned != 0};
    const int64_t stages = (args.depth + kDepth - 1) / kDepth;
    // Every stage is one group of copies, also where there is nothing left to copy.
    const auto copy_stage = [&](int64_t stage) {
        if (stage < stages) {
            copy_tile<kLeftAlongDepth, kTile>(left_tile(stage), left, stage * kDepth);
            copy_tile<kRightAlongDepth, kTile>(right_tile(stage), right, stage * kDepth);
        }
        close_copies();
    };

    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int warp_row = warp / (kTile / kWarpColumns) * (kTile / 2);
    const int warp_column = warp % (kTile / kWarpColumns) * kWarpColumns;
    float sums[kRowPieces][kColumnPieces][4] = {};
    for (int stage = 0; stage < kStages - 1; ++stage) {
        copy_stage(stage);
    }
    for (int64_t stage = 0; stage < stages; ++stage) {
        wait_for_copies<kStages - 2>();
        __syncthreads();  // this stage is here, and everybody has done with the one whose place the next copy takes
        copy_stage(stage + kStages - 1);
#pragma unroll
        for (int d = 0; d < kDepth; d += 16) {
            uint32_t columns[kColumnPieces / 2][4];
#pragma unroll
            for (int c = 0; c < kColumnPieces / 2; ++c) {
                load_right<kRightAlongDepth, kTile>(columns[c], right_tile(stage), warp_column + c * 16, d);
            }
#pragma unroll
            for (int r = 0; r < kRowPieces; ++r) {
                uint32_t rows[4];
                load_left<kLeftAlongDepth, kTile>(rows, left_tile(stage), warp_row + r * 16, d);
#pragma unroll
                for (int c = 0; c < kColumnPieces; ++c) {
                    multiply_add<T>(sums[r][c], rows, columns[c / 2][c % 2 * 2], columns[c / 2][c % 2 * 2 + 1]);
                }
            }
        }
    }
    wait_for_copies<0>();

    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int r = 0; r < kRowPieces; ++r) {
#pragma unroll
        for (int c = 0; c < kColumnPieces; ++c) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                store_sum(args, left.first_row + warp_row + r * 16 + lane / 4 + i / 2 * 8,
                          right.first_row + warp_column + c * 8 + lane % 4 * 2 + i % 2, sums[r][c][i]);
            }
        }
    }
}

template <class T, bool kLeftAlongDepth, bool kRightAlongDepth, int kTile>
void put_tiles(Tape& tape, const Product& product) {
    constexpr auto kBytes =
        kStages * stage_elements<kLeftAlongDepth, kRightAlongDepth, kTile>() * static_cast<uint32_t>(sizeof(T));
    tape.launch(narrow_product_kernel<T, kLeftAlongDepth, kRightAlongDepth, kTile>,
                {.blocks = blocks_of(product, kTile), .threads = threads_of(kTile), .shared_bytes = kBytes},
                args_of(product));
}

template <class T, int kTile>
void put_tiles(Tape& tape, const Product& product) {
    if (product.left.along_depth && product.right.along_depth) {
        put_tiles<T, true, true, kTile>(tape, product);
    } else if (product.left.along_depth) {
        put_tiles<T, true, false, kTile>(tape, product);
    } else if (product.right.along_depth) {
        put_tiles<T, false, true, kTile>(tape, product);
    } else {
        put_tiles<T, false, false, kTile>(tape, product);
    }
}

template <class T>
void put_tiles(Tape& tape, const Product& product) {
    if (tiles_of(product, kLargeTile) >= kEnoughTiles) {
        put_tiles<T, kLargeTile>(tape, product);
    } else {
        put_tiles<T, kSmallTile>(tape, product);
    }
}

}  // namespace

void put_narrow_product(Tape& tape, const Product& product) {
    if (product.dtype == DType::bf16) {
        put_tiles<bf16>(tape, product);
    } else {
        put_tiles<fp16>(tape, product);
    }
}

}  // namespace accrue::cuda::own
