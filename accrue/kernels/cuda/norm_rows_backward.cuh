#pragma once

#include "accrue/kernels/cuda/norm_backward.cuh"

// Norms backward for the rows that models mostly have: each is one run that fills its team, the input and its gradient are in
// fp32, the copy has the type of the output's gradient. All that is asked while a kernel runs elsewhere is known here when it
// is compiled, which leaves registers for rows on their way. Same bits as norm_backward.
namespace accrue::cuda::norms {

// Where two teams of several warps take runs in turns, so that more of them are on their way from memory, the sums of columns
// are those of one team all the same: they lie in shared memory, and one team after the other adds its runs.
template <int groups>
class SharedTotals {
public:
    __device__ SharedTotals(void* memory, const Team& team) : places_(static_cast<float4*>(memory)), team_(team) {}
    [[nodiscard]] static constexpr uint32_t bytes(int64_t threads_of_team) {
        return static_cast<uint32_t>(3 * groups * threads_of_team * static_cast<int64_t>(sizeof(float4)));
    }

    __device__ void load(ColumnTotals<groups>& totals) const {
#pragma unroll
        for (int j = 0; j < groups; ++j) {
            load_one_of(0, j, totals.gain[j]);
            load_one_of(1, j, totals.bias[j]);
        }
    }
    __device__ void store(const ColumnTotals<groups>& totals) const {
#pragma unroll
        for (int j = 0; j < groups; ++j) {
            store_one_of(0, j, totals.gain[j]);
            store_one_of(1, j, totals.bias[j]);
        }
    }
    __device__ void load_copy(ColumnTotals<groups>& totals) const {
#pragma unroll
        for (int j = 0; j < groups; ++j) {
            load_one_of(2, j, totals.copy[j]);
        }
    }
    __device__ void store_copy(const ColumnTotals<groups>& totals) const {
#pragma unroll
        for (int j = 0; j < groups; ++j) {
            store_one_of(2, j, totals.copy[j]);
        }
    }

private:
    [[nodiscard]] __device__ float4& place(int which, int j) const {
        return places_[(which * groups + j) * team_.threads + team_.place];
    }
    __device__ void load_one_of(int which, int j, float (&values)[kGroup]) const {
        const float4 four = place(which, j);
        memcpy(values, &four, sizeof(four));
    }
    __device__ void store_one_of(int which, int j, const float (&values)[kGroup]) const {
        float4 four;
        memcpy(&four, values, sizeof(four));
        place(which, j) = four;
    }

    float4* places_;
    const Team& team_;
};

// Adds runs to the sums of their columns, one after another.
template <int groups, int runs>
__device__ inline void add_runs(ColumnTotals<groups>& totals, const float (&d)[runs][groups][kGroup],
                                const float (&x)[runs][groups][kGroup]) {
#pragma unroll
    for (int k = 0; k < runs; ++k) {
#pragma unroll
        for (int j = 0; j < groups; ++j) {
#pragma unroll
            for (int i = 0; i < kGroup; ++i) {
                totals.gain[j][i] = fmaf(d[k][j][i], x[k][j][i], totals.gain[j][i]);
                totals.bias[j][i] += d[k][j][i];
            }
        }
    }
}

// The first `count` of them.
template <int groups, int runs>
__device__ inline void add_copies(ColumnTotals<groups>& totals, const float (&rounded)[runs][groups][kGroup],
                                  int count) {
#pragma unroll
    for (int k = 0; k < runs; ++k) {
#pragma unroll
        for (int j = 0; j < groups; ++j) {
#pragma unroll
            for (int i = 0; i < kGroup; ++i) {
                totals.copy[j][i] = k < count ? totals.copy[j][i] + rounded[k][j][i] : totals.copy[j][i];
            }
        }
    }
}

// `teams`: 2 where they take turns. `adds`: the input's gradient to what the stream holds.
template <Norm norm, class Out, bool adds, int groups, int teams>
__global__ void __launch_bounds__(groups == 1 ? 192 * teams : 512, groups == 1 && teams == 1 ? 2 : 1)
    norm_rows_backward(NormBackwardArgs args) {
    constexpr int kAtOnce = 4 / groups;
    __shared__ RunSums of_warps[2][kAtOnce][kMostWarps];
    const Piece piece = piece_of(args.rows, blockIdx.x);
    if (piece.rows == 0) {
        return;
    }
    const Team team(args.team_warps);
    const auto rows = static_cast<int>(piece.rows);
    const bool wants_rows = (piece.work & kRowWork) != 0;
    const bool wants_copies = wants_rows && args.sums_copy != 0;
    const Out* const d_output = static_cast<const Out*>(args.d_output.data) + piece.first_row * args.d_output.stride;
    const float* const input = static_cast<const float*>(args.input.data) + piece.first_row * args.input.stride;
    float* const d_input = static_cast<float*>(args.d_input.data) + piece.first_row * args.d_input.stride;
    Out* const copy = static_cast<Out*>(args.copy.data) + piece.first_row * args.copy.stride;
    const float share = 1.0F / static_cast<float>(static_cast<int>(args.width));
    float gain[groups][kGroup];
#pragma unroll
    for (int j = 0; j < groups; ++j) {
        load_vector(args.gain + team.column(j), gain[j]);
    }
    ColumnTotals<groups> totals;
    const SharedTotals<groups> shared(dynamic_shared(), team);
    if constexpr (teams > 1) {
        if (team.number == 0) {
            shared.store(totals);
            shared.store_copy(totals);
        }
    }
    int turn = 0;  // sums of the last turn may still be read while those of this one are written
    for (int start = 0; start < rows; start += teams * kAtOnce, turn ^= 1) {
        const int first = teams > 1 ? start + team.number * kAtOnce : start;
        const int count = min(kAtOnce, rows - first);
        float d[kAtOnce][groups][kGroup];
        float x[kAtOnce][groups][kGroup];
        float before[kAtOnce][groups][kGroup];
        Statistics statistics[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            const int64_t row = min(first + k, rows - 1);  // of one that is not there, the last
            statistics[k] = statistics_of(args, {.row = piece.first_row + row, .run = 0});
#pragma unroll
            for (int j = 0; j < groups; ++j) {
                const int column = team.column(j);
                load_vector(d_output + row * args.d_output.stride + column, d[k][j]);
                load_vector(input + row * args.input.stride + column, x[k][j]);
                if constexpr (adds) {
                    load_vector(d_input + row * args.d_input.stride + column, before[k][j]);
                }
            }
        }
        RunSums sums[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
            for (int j = 0; j < groups; ++j) {
                keep_if(k < count, d[k][j]);
#pragma unroll
                for (int i = 0; i < kGroup; ++i) {
                    x[k][j][i] = statistics[k].template normalised<norm>(x[k][j][i]);
                    if constexpr (teams == 1) {
                        totals.gain[j][i] = fmaf(d[k][j][i], x[k][j][i], totals.gain[j][i]);
                        totals.bias[j][i] += d[k][j][i];
                    }
                    const float scaled = d[k][j][i] * gain[j][i];
                    sums[k].g += scaled;
                    sums[k].gx = fmaf(scaled, x[k][j][i], sums[k].gx);
                }
            }
        }
        if constexpr (teams > 1) {
            for (int number = 0; number < teams; ++number) {
                if (number == team.number && count > 0) {
                    shared.load(totals);
                    add_runs(totals, d, x);
                    shared.store(totals);
                }
                __syncthreads();
            }
        }
        if (!wants_rows) {
            continue;
        }
        sum_over_team(sums, team, of_warps[turn]);
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            if (k >= count) {
                break;
            }
            const int64_t row = first + k;
            const float g_mean = sums[k].g * share;
            const float gx_mean = sums[k].gx * share;
#pragma unroll
            for (int j = 0; j < groups; ++j) {
                const int column = team.column(j);
                float result[kGroup];
#pragma unroll
                for (int i = 0; i < kGroup; ++i) {
                    const float scaled = d[k][j][i] * gain[j][i];
                    const float d_x = statistics[k].template gradient<norm>(scaled, x[k][j][i], g_mean, gx_mean);
                    result[i] = adds ? before[k][j][i] + d_x : d_x;
                }
                store_vector(result, d_input + row * args.d_input.stride + column);
                if (args.copy.data != nullptr) {
                    store_vector(result, copy + row * args.copy.stride + column);
                }
#pragma unroll
                for (int i = 0; i < kGroup; ++i) {
                    const float rounded = to_float(from_float<Out>(result[i]));
                    if constexpr (teams > 1) {
                        d[k][j][i] = rounded;  // until it is this team's turn
                    } else {
                        totals.copy[j][i] += rounded;
                    }
                }
            }
        }
        if constexpr (teams > 1) {
            for (int number = 0; number < teams && wants_copies; ++number) {
                if (number == team.number && count > 0) {
                    shared.load_copy(totals);
                    add_copies(totals, d, count);
                    shared.store_copy(totals);
                }
                __syncthreads();
            }
        }
    }
    if ((piece.work & kSumWork) == 0) {
        return;
    }
    if constexpr (teams > 1) {
        if (team.number != 0) {
            return;
        }
        shared.load(totals);
        shared.load_copy(totals);
    }
    store_sums<groups>(args, piece, team, totals, true);
}

}  // namespace accrue::cuda::norms
