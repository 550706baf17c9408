#pragma once

#include "accrue/kernels/cuda/instructions.cuh"
#include "accrue/kernels/cuda/norm_runs.cuh"
#include "accrue/kernels/cuda/partial_sums.cuh"

// Norms backward, where a run fits into the registers of its team: gradients of inputs and partial sums of columns in one pass.
namespace accrue::cuda::norms {

struct NormBackwardArgs {
    Source d_output;
    Source input;
    const float* gain = nullptr;
    const float* mean = nullptr;
    int64_t mean_stride = 0;
    const float* inverse = nullptr;
    int64_t inverse_stride = 0;
    Target d_input;    // or the stream
    int64_t adds = 0;  // 1: the stream, to which the gradient is added
    Target copy;
    int64_t items = 0;  // runs of all rows
    int64_t runs = 0;   // of a row
    int64_t width = 0;
    int64_t team_warps = 0;
    RowTable rows = {};
    float* partials = nullptr;
    int64_t sums_gain = 0;  // 1: wanted
    int64_t sums_bias = 0;
    int64_t sums_copy = 0;  // of blocks with one team only

    // Where the partial sums of the gain, of the bias, or of the rounded stream begin.
    __device__ float* partial_of_gain(int64_t partial) const {
        return partials + partial * (sums_gain + sums_bias + sums_copy) * width;
    }
    __device__ float* partial_of_bias(int64_t partial) const { return partial_of_gain(partial) + sums_gain * width; }
    __device__ float* partial_of_copy(int64_t partial) const { return partial_of_bias(partial) + sums_bias * width; }
};

// What forward stored of a run.
struct Statistics {
    float mean = 0;
    float inverse = 0;

    template <Norm norm>
    [[nodiscard]] __device__ float normalised(float x) const {
        return norm == Norm::layer ? (x - mean) * inverse : x * inverse;
    }
    // inverse * (g - x * gx_mean - g_mean)
    template <Norm norm>
    [[nodiscard]] __device__ float gradient(float g, float x, float g_mean, float gx_mean) const {
        return inverse * fmaf(-x, gx_mean, norm == Norm::layer ? g - g_mean : g);
    }
};

__device__ inline Statistics statistics_of(const NormBackwardArgs& args, const Run& run) {
    return {.mean = args.mean == nullptr ? 0.0F : args.mean[run.row * args.mean_stride],
            .inverse = args.inverse[run.row * args.inverse_stride + run.run]};
}

// The sums over a run of g and of g * x.
struct RunSums {
    float g = 0;
    float gx = 0;
};

// For all threads of a team, warps in their order; `of_warps` has a place for each warp of the block and run. Where a team is
// more than a warp, all threads of the block come here together.
template <int runs>
__device__ inline void sum_over_team(RunSums (&sums)[runs], const Team& team, RunSums (*of_warps)[kMostWarps]) {
#pragma unroll
    for (int k = 0; k < runs; ++k) {
        sums[k] = {warp_sum(sums[k].g), warp_sum(sums[k].gx)};
        if (team.warps > 1 && threadIdx.x % 32 == 0) {
            of_warps[k][threadIdx.x / 32] = sums[k];
        }
    }
    if (team.warps == 1) {
        return;
    }
    __syncthreads();
    const int first = team.number * team.warps;
#pragma unroll
    for (int k = 0; k < runs; ++k) {
        sums[k] = {};
    }
#pragma unroll 2
    for (int warp = first; warp < first + team.warps; ++warp) {
#pragma unroll
        for (int k = 0; k < runs; ++k) {
            sums[k].g += of_warps[k][warp].g;
            sums[k].gx += of_warps[k][warp].gx;
        }
    }
}

__device__ inline void store_partial(float* to, const float (&sums)[kGroup], int left, bool vectors) {
    store_any(sums, {.data = to}, 0, left, vectors);
}

// What a thread has summed over the rows of its block; of the rounded stream where registers have room for it.
template <int groups>
struct ColumnTotals {
    static constexpr bool kHasCopy = groups <= 2;
    float gain[groups][kGroup] = {};
    float bias[groups][kGroup] = {};
    float copy[kHasCopy ? groups : 1][kGroup] = {};
};

// Columns of a block with one team are each one thread's.
template <int groups>
__device__ inline void store_sums(const NormBackwardArgs& args, const Piece& piece, const Team& team,
                                  const ColumnTotals<groups>& totals, bool vectors) {
#pragma unroll
    for (int j = 0; j < groups; ++j) {
        const int column = team.column(j);
        const int left = static_cast<int>(args.width) - column;
        if (left <= 0) {
            return;
        }
        if (args.sums_gain != 0) {
            store_partial(args.partial_of_gain(piece.partial) + column, totals.gain[j], left, vectors);
        }
        if (args.sums_bias != 0) {
            store_partial(args.partial_of_bias(piece.partial) + column, totals.bias[j], left, vectors);
        }
        if constexpr (ColumnTotals<groups>::kHasCopy) {
            if (args.sums_copy != 0) {
                store_partial(args.partial_of_copy(piece.partial) + column, totals.copy[j], left, vectors);
            }
        }
    }
}

// The teams of a block add up in their order.
template <int groups>
__device__ inline void store_sums_of_teams(const NormBackwardArgs& args, const Piece& piece, const Team& team,
                                           const ColumnTotals<groups>& totals, float* of_teams) {
    constexpr int kColumns = groups * kWarpColumns;
    float* mine = of_teams + team.number * 2 * kColumns;
#pragma unroll
    for (int j = 0; j < groups; ++j) {
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            mine[team.column(j) + i] = totals.gain[j][i];
            mine[kColumns + team.column(j) + i] = totals.bias[j][i];
        }
    }
    __syncthreads();
    for (int64_t column = threadIdx.x; column < args.width; column += blockDim.x) {
        float gain = 0;
        float bias = 0;
        for (int t = 0; t < team.count; ++t) {
            gain += of_teams[t * 2 * kColumns + column];
            bias += of_teams[(t * 2 + 1) * kColumns + column];
        }
        if (args.sums_gain != 0) {
            args.partial_of_gain(piece.partial)[column] = gain;
        }
        if (args.sums_bias != 0) {
            args.partial_of_bias(piece.partial)[column] = bias;
        }
    }
}

template <int groups>
[[nodiscard]] constexpr uint32_t bytes_of_teams(int64_t teams) {
    return teams == 1 ? 0
                      : static_cast<uint32_t>(teams * 2 * groups * kWarpColumns * static_cast<int64_t>(sizeof(float)));
}

// Input gradients and partial column sums of some rows in one pass: a team takes kAtOnce runs together, so that their rows are
// on their way from memory at the same time.
template <Norm norm, class Out, class In, int groups>
__global__ void __launch_bounds__(groups == 1 ? 192 : 512, groups == 1 ? 3 : 1) norm_backward(NormBackwardArgs args) {
    constexpr int kAtOnce = 4 / groups;
    constexpr bool kVectors = !kIsAny<In>;
    auto* const of_teams = reinterpret_cast<float*>(dynamic_shared());
    __shared__ RunSums of_warps[2][kAtOnce][kMostWarps];
    const Piece piece = piece_of(args.rows, blockIdx.x);
    if (piece.rows == 0) {
        return;
    }
    const Team team(args.team_warps);
    const auto width = static_cast<int>(args.width);
    const float share = 1.0F / static_cast<float>(width);
    const bool wants_rows = (piece.work & kRowWork) != 0;
    const bool adds = wants_rows && args.adds != 0;
    float gain[groups][kGroup];
#pragma unroll
    for (int j = 0; j < groups; ++j) {
        load_any({.data = args.gain}, team.column(j), width - team.column(j), kVectors, gain[j]);
    }
    ColumnTotals<groups> totals;
    const auto items = static_cast<uint32_t>(piece.rows * args.runs);
    int turn = 0;  // sums of the last turn may still be read while those of this one are written
    const uint32_t apart = team.count;
    for (uint32_t first = team.number; first < items; first += apart * kAtOnce, turn ^= 1) {
        float d[kAtOnce][groups][kGroup];
        float x[kAtOnce][groups][kGroup];
        float before[kAtOnce][groups][kGroup] = {};
        Statistics statistics[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            const uint32_t item = first + k * apart;
            const bool there = item < items;
            const Run run = run_of(there ? item : first, args.runs);
            const int64_t row = piece.first_row + run.row;
            const int64_t begin = run.run * args.width;
            statistics[k] = statistics_of(args, {.row = row, .run = run.run});
#pragma unroll
            for (int j = 0; j < groups; ++j) {
                const int column = team.column(j);
                const int left = width - column;
                load_group<Out>(args.d_output, row * args.d_output.stride + begin, column, left, d[k][j]);
                load_group<In>(args.input, row * args.input.stride + begin, column, left, x[k][j]);
                keep_if(there && left > 0, d[k][j]);  // where this is 0, it does not matter what the others are
            }
        }
        if (adds) {
            using Stream = std::conditional_t<kVectors, float, AnyType>;
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) {
                const uint32_t item = first + k * apart;
                const Run run = run_of(item < items ? item : first, args.runs);
                const int64_t begin = (piece.first_row + run.row) * args.d_input.stride + run.run * args.width;
#pragma unroll
                for (int j = 0; j < groups; ++j) {
                    const int column = team.column(j);
                    load_group<Stream>({.data = args.d_input.data}, begin, column, width - column, before[k][j]);
                }
            }
        }
        RunSums sums[kAtOnce];
        float scaled[kAtOnce][groups][kGroup];  // the gradient of normalised values
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
            for (int j = 0; j < groups; ++j) {
#pragma unroll
                for (int i = 0; i < kGroup; ++i) {
                    x[k][j][i] = statistics[k].template normalised<norm>(x[k][j][i]);
                    totals.gain[j][i] = fmaf(d[k][j][i], x[k][j][i], totals.gain[j][i]);
                    totals.bias[j][i] += d[k][j][i];
                    scaled[k][j][i] = d[k][j][i] * gain[j][i];
                    sums[k].g += scaled[k][j][i];
                    sums[k].gx = fmaf(scaled[k][j][i], x[k][j][i], sums[k].gx);
                }
            }
        }
        if (!wants_rows) {
            continue;
        }
        sum_over_team(sums, team, of_warps[turn]);
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            const uint32_t item = first + k * apart;
            if (item >= items) {
                break;
            }
            const Run run = run_of(item, args.runs);
            const int64_t row = piece.first_row + run.row;
            const float g_mean = sums[k].g * share;
            const float gx_mean = sums[k].gx * share;
#pragma unroll
            for (int j = 0; j < groups; ++j) {
                const int column = team.column(j);
                const int left = width - column;
                if (left <= 0) {
                    break;
                }
                const int64_t place = run.run * args.width + column;
                float result[kGroup];
#pragma unroll
                for (int i = 0; i < kGroup; ++i) {
                    const float d_x =
                        statistics[k].template gradient<norm>(scaled[k][j][i], x[k][j][i], g_mean, gx_mean);
                    result[i] = adds ? before[k][j][i] + d_x : d_x;
                }
                store_any(result, args.d_input, row * args.d_input.stride + place, left, kVectors);
                if (args.copy.data != nullptr) {
                    store_any(result, args.copy, row * args.copy.stride + place, left, kVectors);
                }
                if constexpr (ColumnTotals<groups>::kHasCopy) {
                    if (args.sums_copy != 0) {
                        round_to_any(args.copy.dtype, result);
#pragma unroll
                        for (int i = 0; i < kGroup; ++i) {
                            totals.copy[j][i] += result[i];
                        }
                    }
                }
            }
        }
    }
    if ((piece.work & kSumWork) == 0) {
        return;
    }
    if (team.count == 1) {
        store_sums<groups>(args, piece, team, totals, kVectors);
    } else {
        store_sums_of_teams<groups>(args, piece, team, totals, of_teams);
    }
}

}  // namespace accrue::cuda::norms
