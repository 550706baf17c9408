#pragma once

#include "accrue/kernels/cuda/attention_args.cuh"
#include "accrue/kernels/cuda/instructions.cuh"

// Tiles of heads in shared memory, and their products on tensor cores. The lanes of a warp hold pieces as
// instructions.cuh says: lane_row() is its g, lane_column() its 2t.
namespace accrue::cuda {

inline constexpr int kAttentionThreads = 128;

__device__ inline int lane_of_warp() {
    return static_cast<int>(threadIdx.x % 32);
}
__device__ inline int warp_of_block() {
    return static_cast<int>(threadIdx.x / 32);
}
__device__ inline int lane_row() {
    return lane_of_warp() / 4;
}
__device__ inline int lane_column() {
    return lane_of_warp() % 4 * 2;
}

// A row of a tile is longer than the head by 16 bytes, so that eight rows below one another lie in different banks.
template <int kD>
inline constexpr int kTileStride = kD + 8;
template <int kD>
[[nodiscard]] constexpr int64_t tile_bytes(int rows) {
    return int64_t{2} * rows * kTileStride<kD>;
}

// Rows first to first + kRows of a head become a tile; what the head does not have is 0. All threads of a block together;
// complete after wait_for_copies and a barrier.
template <int kD, int kRows, class T>
__device__ void load_tile(T* tile, const HeadRows<T>& rows, int first, bool in_vectors) {
    if (!in_vectors) {
        for (int i = static_cast<int>(threadIdx.x); i < kRows * kD; i += kAttentionThreads) {
            const int r = i / kD;
            const int c = i % kD;
            const bool exists = first + r < rows.rows && c < rows.columns;
            tile[r * kTileStride<kD> + c] = exists ? rows.first[(first + r) * rows.stride + c] : from_float<T>(0);
        }
        return;
    }
    constexpr int kVectors = kD / 8;
    constexpr int kRowsAtATime = kAttentionThreads / kVectors;
    const int row = static_cast<int>(threadIdx.x) / kVectors;
    const int column = static_cast<int>(threadIdx.x) % kVectors * 8;
    const T* from = rows.first + (first + row) * rows.stride + column;
    const int count = column < rows.columns ? rows.rows - first : 0;
#pragma unroll
    for (int r = 0; r < kRows; r += kRowsAtATime) {
        if (row < kRowsAtATime && r + row < kRows) {
            copy_16_bytes(tile + (r + row) * kTileStride<kD> + column, from, r + row < count ? 16 : 0);
        }
        from += kRowsAtATime * rows.stride;
    }
}

// Where a lane begins to read 16 rows as a piece a, or as two neighbouring pieces b that are to be turned over ...
template <int kD>
__device__ inline int place_in_16_rows() {
    const int lane = lane_of_warp();
    return lane % 16 * kTileStride<kD> + lane / 16 * 8;
}
// ... and 16 rows that are the columns of two neighbouring pieces b.
template <int kD>
__device__ inline int place_in_16_columns() {
    const int lane = lane_of_warp();
    return (lane % 8 + lane / 16 * 8) * kTileStride<kD> + lane / 8 % 2 * 8;
}

// 16 kM rows of a tile as left factors, read once ...
template <class T, int kD, int kM>
struct RowsInRegisters {
    uint32_t words[kD / 16][kM][4];

    __device__ void take(const T* tile) {
#pragma unroll
        for (int k = 0; k < kD / 16; ++k) {
#pragma unroll
            for (int m = 0; m < kM; ++m) {
                load_matrices(words[k][m], tile + place_in_16_rows<kD>() + m * 16 * kTileStride<kD> + k * 16);
            }
        }
    }
    __device__ void read(int k, uint32_t (&a)[kM][4]) const {
#pragma unroll
        for (int i = 0; i < kM * 4; ++i) {
            a[i / 4][i % 4] = words[k][i / 4][i % 4];
        }
    }
};

// ... or each time they are needed.
template <class T, int kD, int kM>
struct RowsInShared {
    const T* place;

    __device__ void take(const T* tile) { place = tile + place_in_16_rows<kD>(); }
    __device__ void read(int k, uint32_t (&a)[kM][4]) const {
#pragma unroll
        for (int m = 0; m < kM; ++m) {
            load_matrices(a[m], place + m * 16 * kTileStride<kD> + k * 16);
        }
    }
};

// dots[m][n] = rows of `left` times the 8 kN rows of `tile`, summed over their columns.
template <int kD, int kM, int kN, class Left, class T>
__device__ void dots_of(float (&dots)[kM][kN][4], const Left& left, const T* tile) {
#pragma unroll
    for (int i = 0; i < kM * kN * 4; ++i) {
        dots[i / 4 / kN][i / 4 % kN][i % 4] = 0;
    }
    const T* place = tile + place_in_16_columns<kD>();
#pragma unroll
    for (int k = 0; k < kD / 16; ++k) {
        uint32_t a[kM][4];
        left.read(k, a);
#pragma unroll
        for (int n = 0; n < kN; n += 2) {
            uint32_t b[4];
            load_matrices(b, place + n * 8 * kTileStride<kD> + k * 16);
#pragma unroll
            for (int m = 0; m < kM; ++m) {
                multiply_add<T>(dots[m][n], a[m], b[0], b[1]);
                multiply_add<T>(dots[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Two neighbouring pieces of 8 columns, rounded, as one left factor of 16.
template <class T>
__device__ inline void round_pieces(uint32_t (&a)[4], const float (&first)[4], const float (&second)[4]) {
    a[0] = packed_pair<T>(first[0], first[1]);
    a[1] = packed_pair<T>(first[2], first[3]);
    a[2] = packed_pair<T>(second[0], second[1]);
    a[3] = packed_pair<T>(second[2], second[3]);
}

// sums += weights, rounded, times the 8 kN rows of `tile`.
template <int kD, int kM, int kN, class T>
__device__ void add_mix(float (&sums)[kM][kD / 8][4], const float (&weights)[kM][kN][4], const T* tile) {
    const T* place = tile + place_in_16_rows<kD>();
#pragma unroll
    for (int k = 0; k < kN / 2; ++k) {
        uint32_t a[kM][4];
#pragma unroll
        for (int m = 0; m < kM; ++m) {
            round_pieces<T>(a[m], weights[m][2 * k], weights[m][2 * k + 1]);
        }
#pragma unroll
        for (int n = 0; n < kD / 8; n += 2) {
            uint32_t b[4];
            load_transposed(b, place + k * 16 * kTileStride<kD> + n * 8);
#pragma unroll
            for (int m = 0; m < kM; ++m) {
                multiply_add<T>(sums[m][n], a[m], b[0], b[1]);
                multiply_add<T>(sums[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Stores this lane's part of one row of a head: `pieces` of 8 columns, of which it has two neighbours in each, at 2 half
// and 2 half + 1. All are multiplied by `factor`.
template <class T, int kPieces>
__device__ void store_row(const Target& to, int64_t row, int64_t head, int64_t head_size,
                          const float (&pieces)[kPieces][4], int half, float factor) {
    const int64_t place = row * to.stride + head * head_size;
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
        const int column = n * 8 + lane_column();
        const float x = pieces[n][2 * half] * factor;
        const float y = pieces[n][2 * half + 1] * factor;
        if (to.in_words != 0) {
            if (column < head_size) {
                *reinterpret_cast<uint32_t*>(static_cast<T*>(to.data) + place + column) = packed_pair<T>(x, y);
            }
        } else {
            if (column < head_size) {
                store_one(to, place + column, x);
            }
            if (column + 1 < head_size) {
                store_one(to, place + column + 1, y);
            }
        }
    }
}

// Calls with the size that heads of this size are padded to, or not at all if there is none.
template <class Call>
bool with_padded_size(int64_t head_size, const Call& call) {
    if (head_size <= 64) {
        return call(std::integral_constant<int, 64>());
    }
    if (head_size <= 80) {
        return call(std::integral_constant<int, 80>());
    }
    if (head_size <= 96) {
        return call(std::integral_constant<int, 96>());
    }
    if (head_size <= 128) {
        return call(std::integral_constant<int, 128>());
    }
    if (head_size <= 256) {
        return call(std::integral_constant<int, 256>());
    }
    return false;
}

}  // namespace accrue::cuda
