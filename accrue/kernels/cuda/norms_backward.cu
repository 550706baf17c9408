#include <algorithm>

#include "accrue/kernels/cuda/column_totals.h"
#include "accrue/kernels/cuda/norm_rows_backward.cuh"
#include "accrue/kernels/cuda/norms_plan.h"

// Norms backward: runs of any width.
namespace accrue::cuda {
namespace {

using namespace norms;

// --- Runs that are too wide for registers: sums and input gradients by themselves.

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
    sum_over_team(sums, Team(kMostWarps), of_warps);
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

// Whether rows are such as norm_rows_backward takes.
[[nodiscard]] bool is_of_rows(const Backward& call, const TeamShape& team) {
    return call.has_whole_groups() && call.input.columns == call.gain.columns && team.warps > 1 && team.groups <= 2 &&
           call.gain.columns == team.groups * team.warps * kWarpColumns && call.input.dtype == DType::fp32 &&
           call.target().dtype == DType::fp32 && (call.copy.empty() || call.copy.dtype == call.d_output.dtype);
}

// Two teams take turns where there are too few blocks to keep a GPU's memory busy, and each has more than one turn's rows.
[[nodiscard]] bool is_for_turns(const NormBackwardArgs& args, const TeamShape& team, int64_t blocks,
                                int multiprocessors) {
    constexpr int64_t kMostThreads = 512;
    return blocks <= multiprocessors && 2 * 32 * team.warps <= kMostThreads &&
           (args.rows.alike == 0 || args.rows.first.rows_per_block > 4 / team.groups);
}

template <Norm norm, class Out, bool adds, int groups>
void launch_rows(Tape& tape, const NormBackwardArgs& args, TeamShape team, int64_t blocks, bool turns) {
    team.teams = turns ? 2 : 1;
    tape.launch(turns ? norm_rows_backward<norm, Out, adds, groups, 2> : norm_rows_backward<norm, Out, adds, groups, 1>,
                {.blocks = dim3(static_cast<uint32_t>(blocks)),
                 .threads = team.threads(),
                 .shared_bytes = turns ? SharedTotals<groups>::bytes(32 * team.warps) : 0},
                args);
}

template <Norm norm, class Out>
void launch_rows(Tape& tape, const NormBackwardArgs& args, const TeamShape& team, int64_t blocks, bool turns) {
    if (args.adds != 0) {
        return team.groups == 1 ? launch_rows<norm, Out, true, 1>(tape, args, team, blocks, turns)
                                : launch_rows<norm, Out, true, 2>(tape, args, team, blocks, turns);
    }
    team.groups == 1 ? launch_rows<norm, Out, false, 1>(tape, args, team, blocks, turns)
                     : launch_rows<norm, Out, false, 2>(tape, args, team, blocks, turns);
}

template <Norm norm>
void launch_fused(const Context& context, const Backward& call, NormBackwardArgs args) {
    Tape& tape = context.tape;
    const RowSegments rows = call.sums.tensors() == 0 ? segments_without_sums(call.input.rows)
                                                      : segments_of_rows(call.input.rows, call.grains);
    args.rows = table_of(tape, rows);
    const TeamShape team = backward_shape(args.width);
    args.team_warps = team.warps;
    if (is_of_rows(call, team)) {
        const bool turns = is_for_turns(args, team, rows.blocks(), context.multiprocessors);
        with_type(call.d_output.dtype, [&](auto tag) {
            launch_rows<norm, typename decltype(tag)::type>(tape, args, team, rows.blocks(), turns);
        });
    } else if (call.has_whole_groups()) {
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
        launch_fused<norm>(context, call, args);
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
