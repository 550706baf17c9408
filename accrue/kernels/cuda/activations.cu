#include <algorithm>
#include <initializer_list>

#include "accrue/kernels/cuda/column_totals.h"
#include "accrue/kernels/cuda/instructions.cuh"
#include "accrue/kernels/cuda/partial_sums.cuh"
#include "accrue/kernels/cuda/vectors.cuh"

namespace accrue::cuda {
namespace {

constexpr int kGroup = 8;  // neighbouring elements of a thread
constexpr int64_t kMostThreads = 256;
constexpr int64_t kSummingThreads = 128;  // of a block that sums columns
constexpr int kRowsAtOnce = 4;

// gelu(x) = 0.5 x (1 + tanh(u)) = x * sigmoid(2 u), u = root * (x + cubic * x^3): without a difference of numbers near 1.
constexpr float kRoot = 0.797884560802865356F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;
constexpr float kLog2E = 1.442695040888963407F;

// 1 / (1 + e), where e = 2^x overflows to infinity and vanishes as it should.
__device__ inline float one_over_one_plus(float e) {
    return reciprocal(1.0F + e);
}

__device__ inline float sigmoid(float x) {
    return one_over_one_plus(power_of_two(-kLog2E * x));
}

// exp(-2 u)
__device__ inline float gelu_exponential(float x) {
    constexpr float kFirst = -2.0F * kLog2E * kRoot;
    constexpr float kThird = kFirst * kCubic;
    return power_of_two(x * fmaf(kThird, x * x, kFirst));
}

__device__ inline float gelu(float x) {
    return x * one_over_one_plus(gelu_exponential(x));
}

// With s = sigmoid(2 u): s + 2 x s (1 - s) root (1 + 3 cubic x^2), where 1 - s = s * exp(-2 u). Beyond 10 the slope is 0
// or 1 in a float, and its factors would overflow.
__device__ inline float gelu_slope(float x) {
    const float near = fminf(fmaxf(x, -10.0F), 10.0F);
    const float e = gelu_exponential(near);
    const float s = one_over_one_plus(e);
    const float inner = 2.0F * kRoot * near * fmaf(3.0F * kCubic, near * near, 1.0F);
    const float visible = x - x;  // NaN where x is not finite
    return fmaf(inner, s * (s * e), s) + visible;
}

// Which elements of which row a thread has: rows are cut into tiles of as many groups as a block has threads.
struct Tiles {
    int64_t columns = 0;
    int64_t tiles = 0;    // of a row
    int64_t vectors = 0;  // 1: groups that are all there move in words
};

struct Place {
    int64_t row;
    int64_t column;
    int64_t left;  // columns from there on
    bool vectors;
};
__device__ inline Place place_of(const Tiles& tiles) {
    const auto count = static_cast<uint32_t>(tiles.tiles);
    const int64_t tile = blockIdx.x % count;
    const int64_t column = (tile * blockDim.x + threadIdx.x) * kGroup;
    return {.row = blockIdx.x / count, .column = column, .left = tiles.columns - column, .vectors = tiles.vectors != 0};
}

struct UnaryArgs {
    Tiles tiles;
    Source input;
    Target output;
};

__global__ void __launch_bounds__(kMostThreads) gelu_forward(UnaryArgs args) {
    const Place at = place_of(args.tiles);
    if (at.left <= 0) {
        return;
    }
    float x[kGroup];
    load_any(args.input, at.row * args.input.stride + at.column, at.left, at.vectors, x);
#pragma unroll
    for (float& value : x) {
        value = gelu(value);
    }
    store_any(x, args.output, at.row * args.output.stride + at.column, at.left, at.vectors);
}

// gate_up has twice the columns.
__global__ void __launch_bounds__(kMostThreads) swiglu_forward(UnaryArgs args) {
    const Place at = place_of(args.tiles);
    if (at.left <= 0) {
        return;
    }
    const int64_t place = at.row * args.input.stride + at.column;
    float gate[kGroup];
    float up[kGroup];
    load_any(args.input, place, at.left, at.vectors, gate);
    load_any(args.input, place + args.tiles.columns, at.left, at.vectors, up);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
        gate[i] = gate[i] * sigmoid(gate[i]) * up[i];
    }
    store_any(gate, args.output, at.row * args.output.stride + at.column, at.left, at.vectors);
}

struct GradArgs {
    Tiles tiles;
    Source d_output;
    Source input;
    Target d_input;
};

__global__ void __launch_bounds__(kMostThreads) gelu_backward(GradArgs args) {
    const Place at = place_of(args.tiles);
    if (at.left <= 0) {
        return;
    }
    float d[kGroup];
    float x[kGroup];
    load_any(args.d_output, at.row * args.d_output.stride + at.column, at.left, at.vectors, d);
    load_any(args.input, at.row * args.input.stride + at.column, at.left, at.vectors, x);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
        d[i] *= gelu_slope(x[i]);
    }
    store_any(d, args.d_input, at.row * args.d_input.stride + at.column, at.left, at.vectors);
}

struct SummedGradArgs {
    GradArgs grad;
    RowTable rows = {};
    float* partials = nullptr;
};

// Some rows of a thread's columns, whose rounded gradients are added to the sums, one row after another. All columns are
// there, unless the type is any.
template <class T, int rows>
__device__ inline void gelu_backward_rows(const GradArgs& args, int64_t row, const Place& at, float (&sums)[kGroup]) {
    float d[rows][kGroup];
    float x[rows][kGroup];
    const int64_t left = kIsAny<T> ? at.left : kGroup;
#pragma unroll
    for (int k = 0; k < rows; ++k) {
        load<T>(args.d_output, (row + k) * args.d_output.stride + at.column, left, d[k]);
        load<T>(args.input, (row + k) * args.input.stride + at.column, left, x[k]);
    }
#pragma unroll
    for (int k = 0; k < rows; ++k) {
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            d[k][i] *= gelu_slope(x[k][i]);
        }
        const int64_t place = (row + k) * args.d_input.stride + at.column;
        if constexpr (kIsAny<T>) {
            store_any(d[k], args.d_input, place, left, false);
            round_to_any(args.d_input.dtype, d[k]);
        } else {
            store_vector(d[k], static_cast<T*>(args.d_input.data) + place);
            round_to<T>(d[k]);
        }
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            sums[i] += d[k][i];
        }
    }
}

// A block has the rows of one partial sum in one tile of columns.
template <class T>
__global__ void __launch_bounds__(kSummingThreads) gelu_backward_summed(SummedGradArgs args) {
    const Place at = place_of(args.grad.tiles);
    const Piece piece = piece_of(args.rows, at.row);
    if (piece.rows == 0 || at.left <= 0) {
        return;
    }
    float sums[kGroup] = {};
    const int64_t end = piece.first_row + piece.rows;
    int64_t row = piece.first_row;
    // Several rows are on their way from memory at once.
    for (; row + kRowsAtOnce <= end; row += kRowsAtOnce) {
        gelu_backward_rows<T, kRowsAtOnce>(args.grad, row, at, sums);
    }
    for (; row < end; ++row) {
        gelu_backward_rows<T, 1>(args.grad, row, at, sums);
    }
    if ((piece.work & kSumWork) != 0) {
        store_any(sums, {.data = args.partials, .dtype = static_cast<int64_t>(DType::fp32)},
                  piece.partial * args.grad.tiles.columns + at.column, at.left, !kIsAny<T>);
    }
}

__global__ void __launch_bounds__(kMostThreads) swiglu_backward(GradArgs args) {
    const Place at = place_of(args.tiles);
    if (at.left <= 0) {
        return;
    }
    const int64_t in = at.row * args.input.stride + at.column;
    const int64_t out = at.row * args.d_input.stride + at.column;
    float d[kGroup];
    float gate[kGroup];
    float up[kGroup];
    load_any(args.d_output, at.row * args.d_output.stride + at.column, at.left, at.vectors, d);
    load_any(args.input, in, at.left, at.vectors, gate);
    load_any(args.input, in + args.tiles.columns, at.left, at.vectors, up);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
        const float s = sigmoid(gate[i]);
        const float d_gate = d[i] * up[i] * s * fmaf(gate[i], 1.0F - s, 1.0F);
        up[i] = d[i] * gate[i] * s;
        gate[i] = d_gate;
    }
    store_any(gate, args.d_input, out, at.left, at.vectors);
    store_any(up, args.d_input, out + args.tiles.columns, at.left, at.vectors);
}

// Rows that follow one another without gaps are one long row.
[[nodiscard]] bool is_one_piece(const AnyConstView& view) {
    return view.rows <= 1 || view.stride == view.columns;
}

struct Grid {
    Shape shape;
    Tiles tiles;
};
[[nodiscard]] Grid grid_of(int64_t rows, int64_t columns, int64_t most_threads = kMostThreads) {
    const int64_t groups = (columns + kGroup - 1) / kGroup;
    const int64_t threads = std::clamp<int64_t>((groups + 31) / 32 * 32, 32, most_threads);
    const int64_t tiles = (groups + threads - 1) / threads;
    return {.shape = {.blocks = dim3(static_cast<uint32_t>(rows * tiles)), .threads = static_cast<uint32_t>(threads)},
            .tiles = {.columns = columns, .tiles = tiles}};
}

// All views have the same extents.
[[nodiscard]] Grid grid_of(std::initializer_list<AnyConstView> views) {
    const AnyConstView& first = *views.begin();
    const bool one_piece = std::all_of(views.begin(), views.end(), is_one_piece);
    Grid grid = one_piece ? grid_of(1, first.elements()) : grid_of(first.rows, first.columns);
    const bool vectors = std::all_of(views.begin(), views.end(), [&](const AnyConstView& view) {
        return has_vectors(one_piece ? AnyConstView(view.data, view.dtype, 1, view.elements()) : view, kGroup);
    });
    grid.tiles.vectors = vectors ? 1 : 0;
    return grid;
}

// Views of one half of the columns, and of both.
[[nodiscard]] Grid grid_of_halves(std::initializer_list<AnyConstView> halves, const AnyConstView& both) {
    const AnyConstView& first = *halves.begin();
    Grid grid = grid_of(first.rows, first.columns);
    const bool vectors =
        std::all_of(halves.begin(), halves.end(), [](const AnyConstView& half) { return has_vectors(half, kGroup); });
    grid.tiles.vectors = vectors && has_vectors(both, kGroup) && first.columns % kGroup == 0 ? 1 : 0;
    return grid;
}

GradArgs args_of(const op::GeluGrad& call, const Tiles& tiles) {
    return {.tiles = tiles,
            .d_output = source_of(call.d_output),
            .input = source_of(call.input),
            .d_input = target_of(call.d_input)};
}

void launch_gelu_backward(Tape& tape, const op::GeluGrad& call) {
    const Grid grid = grid_of({call.d_input, call.d_output, call.input});
    tape.launch(gelu_backward, grid.shape, args_of(call, grid.tiles));
}

// Grains are in order.
void launch_gelu_backward_summed(Context& context, const op::GeluGrad& call, Scratch& scratch) {
    const int64_t columns = call.d_input.columns;
    const RowSegments rows = segments_of_rows(call.d_input.rows, call.grains);
    const ColumnSums cut = context.totals.room(context, scratch, columns, 1, call.grains);
    const Grid grid = grid_of(rows.blocks(), columns, kSummingThreads);
    const SummedGradArgs args{
        .grad = args_of(call, grid.tiles), .rows = table_of(context.tape, rows), .partials = cut.partials};
    const auto in_groups = [&](const AnyConstView& view) {
        return view.dtype == call.d_input.dtype && columns % kGroup == 0 && has_vectors(view, kGroup);
    };
    if (in_groups(call.d_output) && in_groups(call.input) && in_groups(call.d_input)) {
        with_type(call.d_input.dtype, [&](auto tag) {
            context.tape.launch(gelu_backward_summed<typename decltype(tag)::type>, grid.shape, args);
        });
    } else {
        context.tape.launch(gelu_backward_summed<AnyType>, grid.shape, args);
    }
    const TensorSums wanted{.sums = call.d_bias, .tensor = 0};
    add_totals(context, cut, columns, 1, call.grains, std::span(&wanted, 1), scratch);
}

}  // namespace

void lower(Context& context, const op::Gelu& call, Scratch /*scratch*/) {
    if (call.output.elements() == 0) {
        return;
    }
    const Grid grid = grid_of({call.output, call.input});
    const UnaryArgs args{.tiles = grid.tiles, .input = source_of(call.input), .output = target_of(call.output)};
    context.tape.launch(gelu_forward, grid.shape, args);
}

void lower(Context& context, const op::GeluGrad& call, Scratch scratch) {
    if (call.d_input.elements() == 0) {
        return;
    }
    if (!call.d_bias.empty() && are_in_order(call.grains)) {
        return launch_gelu_backward_summed(context, call, scratch);
    }
    launch_gelu_backward(context.tape, call);
    add_column_sums(context, call.d_input, call.grains, call.d_bias, scratch);
}

void lower(Context& context, const op::Swiglu& call, Scratch /*scratch*/) {
    if (call.output.elements() == 0) {
        return;
    }
    const Grid grid = grid_of_halves({call.output}, call.gate_up);
    const UnaryArgs args{.tiles = grid.tiles, .input = source_of(call.gate_up), .output = target_of(call.output)};
    context.tape.launch(swiglu_forward, grid.shape, args);
}

void lower(Context& context, const op::SwigluGrad& call, Scratch /*scratch*/) {
    if (call.d_output.elements() == 0) {
        return;
    }
    Grid grid = grid_of_halves({call.d_output}, call.gate_up);
    grid.tiles.vectors = grid.tiles.vectors != 0 && has_vectors(call.d_gate_up, kGroup) ? 1 : 0;
    const GradArgs args{.tiles = grid.tiles,
                        .d_output = source_of(call.d_output),
                        .input = source_of(call.gate_up),
                        .d_input = target_of(call.d_gate_up)};
    context.tape.launch(swiglu_backward, grid.shape, args);
}

}  // namespace accrue::cuda
