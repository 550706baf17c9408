#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/norm_runs.cuh"

// Norms forward.
namespace accrue::cuda {
namespace {

using namespace norms;

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

}  // namespace accrue::cuda
