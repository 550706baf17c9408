#include <algorithm>

#include "accrue/kernels/cuda/column_totals.h"
#include "accrue/kernels/cuda/instructions.cuh"
#include "accrue/kernels/cuda/norms_plan.h"
#include "accrue/kernels/cuda/partial_sums.cuh"
#include "accrue/kernels/cuda/vectors.cuh"

// A run of columns that is normalised by itself belongs to a team of threads: one warp, or a whole block. A thread holds
// groups of four neighbouring columns in registers. Which columns are whose follows from the width of a run alone, so that
// a run has the same bits wherever it lies, and whether it is read in words or one by one. Runs that are too wide for
// registers have kernels of their own, which read them several times.
namespace accrue::cuda {
namespace {

constexpr int kGroup = 4;          // neighbouring columns of a thread
constexpr int kWarpColumns = 128;  // a group for each lane
constexpr int64_t kWidest = 8192;  // that fits into registers
constexpr int kWideThreads = 1024;
constexpr int kMostWarps = 32;

enum class Norm { rms, layer };

// How runs of one width are shared out.
struct TeamShape {
    int64_t groups = 1;  // of each thread, at most
    int64_t warps = 1;   // of a team
    int64_t teams = 1;   // of a block; several only where a team is a warp

    [[nodiscard]] uint32_t threads() const { return static_cast<uint32_t>(32 * warps * teams); }
};

[[nodiscard]] int64_t divided_up(int64_t count, int64_t by) {
    return (count + by - 1) / by;
}

// The threads that work on one run.
struct Team {
    int warps;
    int threads;
    int number;  // in its block
    int place;   // of this thread in the team
    int count;   // teams of the block

    __device__ explicit Team(int64_t warps_)
        : warps(static_cast<int>(warps_)),
          threads(32 * warps),
          number(static_cast<int>(threadIdx.x) / threads),
          place(static_cast<int>(threadIdx.x) % threads),
          count(static_cast<int>(blockDim.x) / threads) {}
    // The first column of this thread's j-th group.
    [[nodiscard]] __device__ int column(int j) const { return (j * threads + place) * kGroup; }
};

// A thread's group of a run that begins at `begin`; `left` columns of the run are there from `column` on. Reads in words
// whatever is there, so that no load waits for a branch: of a group behind the end, the first group instead of nothing.
template <class T>
__device__ inline void load_group(const Source& source, int64_t begin, int column, int left, float (&values)[kGroup]) {
    if constexpr (kIsAny<T>) {
        load<AnyType>(source, begin + column, left, values);
    } else {
        load_vector(static_cast<const T*>(source.data) + begin + (left > 0 ? column : 0), values);
    }
}
__device__ inline void keep_if(bool there, float (&values)[kGroup]) {
#pragma unroll
    for (float& value : values) {
        value = there ? value : 0.0F;
    }
}

// The sum over a team, for all its threads in the same order: lanes, then warps. `of_warps` is used by one sum at a time.
__device__ inline float team_sum(float value, int warps, float* of_warps) {
    value = warp_sum(value);
    if (warps == 1) {
        return value;
    }
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float sum = 0;
    for (int warp = 0; warp < warps; ++warp) {
        sum += of_warps[warp];
    }
    return sum;
}

// A run of columns of a row.
struct Run {
    int64_t row;
    int64_t run;
};

// Run number `item`, where each row has so many.
__device__ inline Run run_of(uint32_t item, int64_t runs) {
    const int64_t row = runs == 1 ? item : item / static_cast<uint32_t>(runs);
    return {.row = row, .run = item - row * runs};
}

// --- Forward.

struct NormArgs {
    Source input;
    Target output;
    const float* gain = nullptr;
    const float* bias = nullptr;
    float* mean = nullptr;
    int64_t mean_stride = 0;
    float* inverse = nullptr;
    int64_t inverse_stride = 0;
    int64_t items = 0;  // runs of all rows
    int64_t runs = 0;   // of a row
    int64_t width = 0;
    int64_t team_warps = 0;
    double epsilon = 0;
};

// 1 / sqrt(squares / width + epsilon), every step rounded to nearest.
__device__ inline float inverse_root(float squares, const NormArgs& args) {
    return 1.0F / sqrtf(squares / static_cast<float>(args.width) + static_cast<float>(args.epsilon));
}

__device__ inline void store_statistics(const NormArgs& args, const Run& run, float mean, float inverse) {
    if (args.mean != nullptr) {
        args.mean[run.row * args.mean_stride] = mean;
    }
    args.inverse[run.row * args.inverse_stride + run.run] = inverse;
}

template <Norm norm>
__device__ inline float normalised(float x, float mean, float inverse, float gain, float bias) {
    return norm == Norm::layer ? fmaf((x - mean) * inverse, gain, bias) : x * inverse * gain;
}

template <Norm norm, class In, int groups>
__global__ void __launch_bounds__(256) norm_runs(NormArgs args) {
    __shared__ float of_warps[2][kMostWarps];
    const Team team(args.team_warps);
    const int64_t item = static_cast<int64_t>(blockIdx.x) * team.count + team.number;
    if (item >= args.items) {
        return;  // a block of several teams, which wait for nobody
    }
    const Run run = run_of(static_cast<uint32_t>(item), args.runs);
    const int64_t begin = run.run * args.width;
    const auto width = static_cast<int>(args.width);
    float x[groups][kGroup];
    float sum = 0;
#pragma unroll
    for (int j = 0; j < groups; ++j) {
        const int column = team.column(j);
        load_group<In>(args.input, run.row * args.input.stride + begin, column, width - column, x[j]);
        keep_if(column < width, x[j]);
    }
    float mean = 0;
    if constexpr (norm == Norm::layer) {
#pragma unroll
        for (int j = 0; j < groups; ++j) {
            sum += (x[j][0] + x[j][1]) + (x[j][2] + x[j][3]);
        }
        mean = team_sum(sum, team.warps, of_warps[0]) / static_cast<float>(args.width);
    }
    float squares = 0;
#pragma unroll
    for (int j = 0; j < groups; ++j) {
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            const float centered = x[j][i] - mean;
            const bool there = team.column(j) + (kIsAny<In> ? i : 0) < width;
            squares = there ? fmaf(centered, centered, squares) : squares;
        }
    }
    const float inverse = inverse_root(team_sum(squares, team.warps, of_warps[1]), args);
    if (team.place == 0) {
        store_statistics(args, run, mean, inverse);
    }
#pragma unroll
    for (int j = 0; j < groups; ++j) {
        const int column = team.column(j);
        const int left = width - column;
        if (left <= 0) {
            break;
        }
        float gain[kGroup];
        float bias[kGroup] = {};
        load_any({.data = args.gain}, column, left, !kIsAny<In>, gain);
        if constexpr (norm == Norm::layer) {
            load_any({.data = args.bias}, column, left, !kIsAny<In>, bias);
        }
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            x[j][i] = normalised<norm>(x[j][i], mean, inverse, gain[i], bias[i]);
        }
        store_any(x[j], args.output, run.row * args.output.stride + begin + column, left, !kIsAny<In>);
    }
}

// The same for any width: a block for each run, every thread with each 1,024th column.
template <Norm norm>
__global__ void __launch_bounds__(kWideThreads) norm_wide_runs(NormArgs args) {
    __shared__ float of_warps[2][kMostWarps];
    const Run run = run_of(blockIdx.x, args.runs);
    const int64_t begin = run.run * args.width;
    const int64_t in = run.row * args.input.stride + begin;
    float mean = 0;
    if constexpr (norm == Norm::layer) {
        float sum = 0;
        for (int64_t c = threadIdx.x; c < args.width; c += kWideThreads) {
            sum += load_one(args.input, in + c);
        }
        mean = team_sum(sum, kMostWarps, of_warps[0]) / static_cast<float>(args.width);
    }
    float squares = 0;
    for (int64_t c = threadIdx.x; c < args.width; c += kWideThreads) {
        const float centered = load_one(args.input, in + c) - mean;
        squares = fmaf(centered, centered, squares);
    }
    const float inverse = inverse_root(team_sum(squares, kMostWarps, of_warps[1]), args);
    if (threadIdx.x == 0) {
        store_statistics(args, run, mean, inverse);
    }
    for (int64_t c = threadIdx.x; c < args.width; c += kWideThreads) {
        const float bias = norm == Norm::layer ? args.bias[c] : 0.0F;
        const float value = normalised<norm>(load_one(args.input, in + c), mean, inverse, args.gain[c], bias);
        store_one(value, args.output, run.row * args.output.stride + begin + c);
    }
}

// A warp for a run of up to 1,024 columns, else as many warps as it takes with 32 columns for each thread.
[[nodiscard]] TeamShape forward_shape(int64_t width) {
    const int64_t groups = divided_up(width, kWarpColumns);
    if (groups <= 8) {
        return {.groups = groups <= 2 ? groups : groups <= 4 ? 4 : groups <= 6 ? 6 : 8, .warps = 1, .teams = 4};
    }
    return {.groups = 8, .warps = divided_up(groups, 8), .teams = 1};
}

template <Norm norm, class In>
void launch_norm(Tape& tape, const NormArgs& args, const TeamShape& team) {
    const Shape shape{.blocks = dim3(static_cast<uint32_t>(divided_up(args.items, team.teams))),
                      .threads = team.threads()};
    switch (team.groups) {
        case 1:
            return tape.launch(norm_runs<norm, In, 1>, shape, args);
        case 2:
            return tape.launch(norm_runs<norm, In, 2>, shape, args);
        case 4:
            return tape.launch(norm_runs<norm, In, 4>, shape, args);
        case 6:
            return tape.launch(norm_runs<norm, In, 6>, shape, args);
        default:
            return tape.launch(norm_runs<norm, In, 8>, shape, args);
    }
}

// Whether each run of such a view begins and ends with a whole group.
[[nodiscard]] bool has_groups(const AnyConstView& view, int64_t width) {
    return view.empty() || (width % kGroup == 0 && has_vectors(view, kGroup));
}

template <Norm norm>
void launch_norm(Tape& tape, NormArgs args, const AnyConstView& input, const AnyConstView& output) {
    if (args.width > kWidest) {
        tape.launch(norm_wide_runs<norm>, {.blocks = dim3(static_cast<uint32_t>(args.items)), .threads = kWideThreads},
                    args);
        return;
    }
    const TeamShape team = forward_shape(args.width);
    args.team_warps = team.warps;
    const auto vector_of = [&](const float* data) { return AnyConstView(data, DType::fp32, 1, args.width); };
    if (!has_groups(input, args.width) || !has_groups(output, args.width) ||
        !has_groups(vector_of(args.gain), args.width) || !has_groups(vector_of(args.bias), args.width)) {
        return launch_norm<norm, AnyType>(tape, args, team);
    }
    if constexpr (norm == Norm::layer) {
        launch_norm<norm, float>(tape, args, team);
    } else {
        with_type(input.dtype, [&](auto tag) { launch_norm<norm, typename decltype(tag)::type>(tape, args, team); });
    }
}

// --- Backward.

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

// For all threads of a block, or of a warp where that is the team; `of_warps` has a place for each warp and run.
template <int runs>
__device__ inline void sum_over_team(RunSums (&sums)[runs], int warps, RunSums (*of_warps)[kMostWarps]) {
#pragma unroll
    for (int k = 0; k < runs; ++k) {
        sums[k] = {warp_sum(sums[k].g), warp_sum(sums[k].gx)};
        if (warps > 1 && threadIdx.x % 32 == 0) {
            of_warps[k][threadIdx.x / 32] = sums[k];
        }
    }
    if (warps == 1) {
        return;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < runs; ++k) {
        sums[k] = {};
        for (int warp = 0; warp < warps; ++warp) {
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

// Input gradients and partial column sums of some rows in one pass: the team takes `at_once` runs together, so that their
// rows are on their way from memory at the same time.
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
    for (uint32_t first = team.number; first < items; first += team.count * kAtOnce, turn ^= 1) {
        float d[kAtOnce][groups][kGroup];
        float x[kAtOnce][groups][kGroup];
        float before[kAtOnce][groups][kGroup] = {};
        Statistics statistics[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            const uint32_t item = first + k * team.count;
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
                const uint32_t item = first + k * team.count;
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
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
            for (int j = 0; j < groups; ++j) {
#pragma unroll
                for (int i = 0; i < kGroup; ++i) {
                    x[k][j][i] = statistics[k].template normalised<norm>(x[k][j][i]);
                    totals.gain[j][i] = fmaf(d[k][j][i], x[k][j][i], totals.gain[j][i]);
                    totals.bias[j][i] += d[k][j][i];
                    d[k][j][i] *= gain[j][i];
                    sums[k].g += d[k][j][i];
                    sums[k].gx = fmaf(d[k][j][i], x[k][j][i], sums[k].gx);
                }
            }
        }
        if (!wants_rows) {
            continue;
        }
        sum_over_team(sums, team.warps, of_warps[turn]);
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            const uint32_t item = first + k * team.count;
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
                    const float d_x = statistics[k].template gradient<norm>(d[k][j][i], x[k][j][i], g_mean, gx_mean);
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

// --- Backward of runs that are too wide for that: sums and input gradients by themselves.

template <Norm norm>
__global__ void __launch_bounds__(kWideThreads) wide_norm_backward(NormBackwardArgs args) {
    __shared__ RunSums of_warps[1][kMostWarps];
    const Run run = run_of(blockIdx.x, args.runs);
    const int64_t begin = run.run * args.width;
    const Statistics statistics = statistics_of(args, run);
    const auto d_output = [&](int64_t c) {
        return load_one(args.d_output, run.row * args.d_output.stride + begin + c) * args.gain[c];
    };
    const auto input = [&](int64_t c) {
        return statistics.template normalised<norm>(load_one(args.input, run.row * args.input.stride + begin + c));
    };
    RunSums sums[1];
    for (int64_t c = threadIdx.x; c < args.width; c += kWideThreads) {
        const float g = d_output(c);
        sums[0].g += g;
        sums[0].gx = fmaf(g, input(c), sums[0].gx);
    }
    sum_over_team(sums, kMostWarps, of_warps);
    const float share = 1.0F / static_cast<float>(args.width);
    const float g_mean = sums[0].g * share;
    const float gx_mean = sums[0].gx * share;
    for (int64_t c = threadIdx.x; c < args.width; c += kWideThreads) {
        const int64_t place = run.row * args.d_input.stride + begin + c;
        const float d_x = statistics.template gradient<norm>(d_output(c), input(c), g_mean, gx_mean);
        const float result = args.adds != 0 ? static_cast<const float*>(args.d_input.data)[place] + d_x : d_x;
        store_one(result, args.d_input, place);
        if (args.copy.data != nullptr) {
            store_one(result, args.copy, run.row * args.copy.stride + begin + c);
        }
    }
}

constexpr int kWideTile = 256;

// A thread has one column of the rows of one partial sum.
template <Norm norm>
__global__ void __launch_bounds__(kWideTile) sum_wide_columns(NormBackwardArgs args) {
    const auto tiles = static_cast<uint32_t>((args.width + kWideTile - 1) / kWideTile);
    const Piece piece = piece_of(args.rows, blockIdx.x / tiles);
    const int64_t column = static_cast<int64_t>(blockIdx.x % tiles) * kWideTile + threadIdx.x;
    if (piece.rows == 0 || column >= args.width) {
        return;
    }
    float gain = 0;
    float bias = 0;
    for (int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
        for (int64_t run = 0; run < args.runs; ++run) {
            const int64_t place = run * args.width + column;
            const float d = load_one(args.d_output, row * args.d_output.stride + place);
            const float in = load_one(args.input, row * args.input.stride + place);
            gain = fmaf(d, statistics_of(args, {.row = row, .run = run}).template normalised<norm>(in), gain);
            bias += d;
        }
    }
    if (args.sums_gain != 0) {
        args.partial_of_gain(piece.partial)[column] = gain;
    }
    if (args.sums_bias != 0) {
        args.partial_of_bias(piece.partial)[column] = bias;
    }
}

// --- What the host puts on the tape.

// Few columns for each thread, because all that is read of some runs waits in registers.
[[nodiscard]] TeamShape backward_shape(int64_t width) {
    const int64_t warps = divided_up(width, kWarpColumns);  // with one group for each lane
    if (warps <= 2) {
        return {.groups = warps, .warps = 1, .teams = 4};
    }
    const int64_t groups = warps <= 6 ? 1 : warps <= 32 ? 2 : 4;
    return {.groups = groups, .warps = divided_up(warps, groups), .teams = 1};
}

template <Norm norm, class Out, class In, int groups>
void launch_norm_backward(Tape& tape, const NormBackwardArgs& args, const TeamShape& team, int64_t blocks) {
    tape.launch(norm_backward<norm, Out, In, groups>,
                {.blocks = dim3(static_cast<uint32_t>(blocks)),
                 .threads = team.threads(),
                 .shared_bytes = bytes_of_teams<groups>(team.teams)},
                args);
}

template <Norm norm, class Out, class In>
void launch_norm_backward(Tape& tape, const NormBackwardArgs& args, const TeamShape& team, int64_t blocks) {
    switch (team.groups) {
        case 1:
            return launch_norm_backward<norm, Out, In, 1>(tape, args, team, blocks);
        case 2:
            return launch_norm_backward<norm, Out, In, 2>(tape, args, team, blocks);
        default:
            return launch_norm_backward<norm, Out, In, 4>(tape, args, team, blocks);
    }
}

// In words for the types that models have: a stream in fp32, or heads of which both views have one type.
template <Norm norm>
void launch_typed(Tape& tape, const NormBackwardArgs& args, const TeamShape& team, int64_t blocks, DType d_output,
                  DType input) {
    with_type(d_output, [&](auto tag) {
        using Out = typename decltype(tag)::type;
        if (input == DType::fp32) {
            return launch_norm_backward<norm, Out, float>(tape, args, team, blocks);
        }
        if constexpr (norm == Norm::rms && !std::is_same_v<Out, float>) {
            if (input == d_output) {
                return launch_norm_backward<norm, Out, Out>(tape, args, team, blocks);
            }
        }
        launch_norm_backward<norm, AnyType, AnyType>(tape, args, team, blocks);
    });
}

// Both operations: RmsNormBackward, and LayerNormBackward with a mean and sums of a bias.
struct Backward {
    AnyConstView d_output;
    AnyConstView input;
    View<const float> gain;
    View<const float> mean;
    View<const float> inverse;
    AnyView d_input;
    AnyView d_stream;
    AnyView copy;
    std::span<const RowRange> grains;
    std::span<const SumView> d_gain;
    std::span<const SumView> d_bias;
    std::span<const SumView> copy_sums;
    NormSums sums;

    [[nodiscard]] const AnyView& target() const { return d_stream.empty() ? d_input : d_stream; }
    [[nodiscard]] NormBackwardArgs args() const {
        const int64_t runs = input.columns / gain.columns;
        return {.d_output = source_of(d_output),
                .input = source_of(input),
                .gain = gain.data,
                .mean = mean.data,
                .mean_stride = mean.stride,
                .inverse = inverse.data,
                .inverse_stride = inverse.stride,
                .d_input = target_of(target()),
                .adds = d_stream.empty() ? 0 : 1,
                .copy = target_of(copy),
                .items = input.rows * runs,
                .runs = runs,
                .width = gain.columns,
                .sums_gain = sums.gain ? 1 : 0,
                .sums_bias = sums.bias ? 1 : 0,
                .sums_copy = sums.copy ? 1 : 0};
    }
    [[nodiscard]] bool has_whole_groups() const {
        const int64_t width = gain.columns;
        return has_groups(d_output, width) && has_groups(input, width) && has_groups(target(), width) &&
               has_groups(copy, width) && has_groups(gain, width);
    }
};

template <Norm norm>
void launch_wide(Tape& tape, const Backward& call, NormBackwardArgs args) {
    const RowSegments rows = segments_of_sums(call.sums.tensors() == 0 ? std::span<const RowRange>() : call.grains);
    if (!rows.segments.empty()) {
        args.rows = table_of(tape, rows);
        tape.launch(sum_wide_columns<norm>,
                    {.blocks = dim3(static_cast<uint32_t>(rows.blocks() * divided_up(args.width, kWideTile))),
                     .threads = kWideTile},
                    args);
        args.rows = {};
    }
    tape.launch(wide_norm_backward<norm>, {.blocks = dim3(static_cast<uint32_t>(args.items)), .threads = kWideThreads},
                args);
}

template <Norm norm>
void launch_fused(Tape& tape, const Backward& call, NormBackwardArgs args) {
    const RowSegments rows = call.sums.tensors() == 0 ? segments_without_sums(call.input.rows)
                                                      : segments_of_rows(call.input.rows, call.grains);
    const TeamShape team = backward_shape(args.width);
    args.team_warps = team.warps;
    args.rows = table_of(tape, rows);
    if (call.has_whole_groups()) {
        launch_typed<norm>(tape, args, team, rows.blocks(), call.d_output.dtype, call.input.dtype);
    } else {
        launch_norm_backward<norm, AnyType, AnyType>(tape, args, team, rows.blocks());
    }
}

template <Norm norm>
void lower_backward(Context& context, const Backward& call, Scratch scratch) {
    if (call.input.rows == 0 || call.input.columns == 0) {
        return;
    }
    const int64_t width = call.gain.columns;
    const int64_t tensors = call.sums.tensors();
    Scratch for_copy = scratch;
    NormBackwardArgs args = call.args();
    ColumnSums cut;
    if (tensors > 0) {
        cut = context.totals.room(context, scratch, width, tensors, call.grains);
        args.partials = cut.partials;
    }
    if (width > kWidest) {
        launch_wide<norm>(context.tape, call, args);
    } else {
        launch_fused<norm>(context.tape, call, args);
    }
    std::vector<TensorSums> wanted;
    const auto add = [&](bool is_summed, std::span<const SumView> sums) {
        if (is_summed) {
            wanted.push_back({.sums = sums, .tensor = std::ssize(wanted)});
        }
    };
    add(call.sums.gain, call.d_gain);
    add(call.sums.bias, call.d_bias);
    add(call.sums.copy, call.copy_sums);
    if (!wanted.empty()) {
        add_totals(context, cut, width, tensors, call.grains, wanted, scratch);
    }
    if (call.sums.copy_alone) {
        add_column_sums(context, call.copy, call.grains, call.copy_sums, for_copy);
    }
}

}  // namespace

void lower(Context& context, const op::RmsNorm& call, Scratch /*scratch*/) {
    if (call.input.rows == 0 || call.input.columns == 0) {
        return;
    }
    const int64_t runs = call.input.columns / call.gain.columns;
    const NormArgs args{.input = source_of(call.input),
                        .output = target_of(call.output),
                        .gain = call.gain.data,
                        .inverse = call.inverse_rms.data,
                        .inverse_stride = call.inverse_rms.stride,
                        .items = call.input.rows * runs,
                        .runs = runs,
                        .width = call.gain.columns,
                        .epsilon = call.epsilon};
    launch_norm<Norm::rms>(context.tape, args, call.input, call.output);
}

void lower(Context& context, const op::LayerNorm& call, Scratch /*scratch*/) {
    if (call.input.rows == 0 || call.input.columns == 0) {
        return;
    }
    const NormArgs args{.input = source_of(call.input),
                        .output = target_of(call.output),
                        .gain = call.gain.data,
                        .bias = call.bias.data,
                        .mean = call.mean.data,
                        .mean_stride = call.mean.stride,
                        .inverse = call.inverse_deviation.data,
                        .inverse_stride = call.inverse_deviation.stride,
                        .items = call.input.rows,
                        .runs = 1,
                        .width = call.input.columns,
                        .epsilon = call.epsilon};
    launch_norm<Norm::layer>(context.tape, args, call.input, call.output);
}

void lower(Context& context, const op::RmsNormBackward& call, Scratch scratch) {
    lower_backward<Norm::rms>(context,
                              {.d_output = call.d_output,
                               .input = call.input,
                               .gain = call.gain,
                               .mean = {},
                               .inverse = call.inverse_rms,
                               .d_input = call.d_input,
                               .d_stream = call.d_stream,
                               .copy = call.copy,
                               .grains = call.grains,
                               .d_gain = call.d_gain,
                               .d_bias = {},
                               .copy_sums = call.copy_sums,
                               .sums = sums_of(call)},
                              scratch);
}

void lower(Context& context, const op::LayerNormBackward& call, Scratch scratch) {
    lower_backward<Norm::layer>(context,
                                {.d_output = call.d_output,
                                 .input = call.input,
                                 .gain = call.gain,
                                 .mean = call.mean,
                                 .inverse = call.inverse_deviation,
                                 .d_input = {},
                                 .d_stream = call.d_stream,
                                 .copy = call.copy,
                                 .grains = call.grains,
                                 .d_gain = call.d_gain,
                                 .d_bias = call.d_bias,
                                 .copy_sums = call.copy_sums,
                                 .sums = sums_of(call)},
                                scratch);
}

}  // namespace accrue::cuda
