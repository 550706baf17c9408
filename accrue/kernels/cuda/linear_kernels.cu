#include "accrue/kernels/cuda/four.cuh"
#include "accrue/kernels/cuda/linear_kernels.h"
#include "accrue/kernels/cuda/product_own.cuh"

namespace accrue::cuda {
namespace {

constexpr uint32_t kLinearThreads = 256;

struct DropArgs {
    DropoutArgs dropout;
    const float* residual = nullptr;
    float* stream = nullptr;
    int64_t columns = 0;
    int64_t residual_stride = 0;
    int64_t stream_stride = 0;
};

// A block has a row.
__global__ void __launch_bounds__(kLinearThreads) drop_and_add_kernel(const DropArgs args) {
    const int64_t row = blockIdx.x;
    const uint64_t key = args.dropout.row_key(row);
    const float* const residual = args.residual + row * args.residual_stride;
    float* const stream = args.stream + row * args.stream_stride;
    for (int64_t c = threadIdx.x; c < args.columns; c += kLinearThreads) {
        const float factor = args.dropout.factor(key, static_cast<uint64_t>(c));
        stream[c] = residual[c] + (factor == 0 ? 0.0F : stream[c] * factor);
    }
}

struct SlicesArgs {
    const float* slices = nullptr;
    int64_t apart = 0;
    int64_t count = 0;
    void* output = nullptr;
    int64_t output_stride = 0;
    int64_t output_dtype = 0;
    int64_t elements = 0;
    int64_t columns = 0;
    const void* left = nullptr;
    int64_t left_stride = 0;
    const void* right = nullptr;
    int64_t right_row_stride = 0;    // between two columns of the output
    int64_t right_depth_stride = 0;  // between two terms
    int64_t rest = 0;
};

// A thread has kEach neighbouring elements of the output: 4 where its rows have a multiple of them, else 1.
template <class T, int kEach>
__global__ void __launch_bounds__(kLinearThreads) sum_of_slices_kernel(const SlicesArgs args) {
    const int64_t first = (static_cast<int64_t>(blockIdx.x) * kLinearThreads + threadIdx.x) * kEach;
    if (first >= args.elements) {
        return;
    }
    float sums[kEach];
    for (int64_t slice = 0; slice < args.count; ++slice) {
        const float* const from = args.slices + slice * args.apart + first;
        float values[kEach];
        if constexpr (kEach == 4) {
            const Four<float> four = load_four<Reuse::none>(from);
            memcpy(values, &four, sizeof(values));
        } else {
            values[0] = *from;
        }
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            sums[e] = slice == 0 ? values[e] : sums[e] + values[e];
        }
    }
    const int64_t row = first / args.columns;
    const int64_t column = first % args.columns;
    const T* const left = static_cast<const T*>(args.left) + row * args.left_stride;
    const T* const right = static_cast<const T*>(args.right) + column * args.right_row_stride;
    for (int64_t k = 0; k < args.rest; ++k) {
        const float factor = to_float(left[k]);
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            sums[e] = fmaf(factor, to_float(right[k * args.right_depth_stride + e * args.right_row_stride]), sums[e]);
        }
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
        own::store_as(args.output, args.output_dtype, row * args.output_stride + column + e, sums[e]);
    }
}

struct HoldArgs {
    const int32_t* slot_of_row = nullptr;
    float* values = nullptr;
    int64_t values_stride = 0;
    float* gradient = nullptr;
    int64_t rows = 0;
    int64_t columns = 0;
};

// A warp has a row: most have no slot.
__global__ void __launch_bounds__(kLinearThreads) hold_rows_kernel(const HoldArgs args) {
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * kLinearThreads + threadIdx.x) / 32;
    if (row >= args.rows) {
        return;
    }
    const int64_t slot = args.slot_of_row[row];
    if (slot < 0) {
        return;
    }
    float* const values = args.values + slot * args.values_stride;
    for (int64_t c = threadIdx.x % 32; c < args.columns; c += 32) {
        if (args.gradient == nullptr) {
            values[c] = 0;
        } else {
            float* const place = args.gradient + row * args.columns + c;
            values[c] = *place;
            *place = 0;
        }
    }
}

dim3 linear_blocks(int64_t threads) {
    return dim3(static_cast<uint32_t>((threads + kLinearThreads - 1) / kLinearThreads));
}

}  // namespace

void put_drop_and_add(Tape& tape, const Dropout& dropout, View<const float> residual, View<float> stream) {
    if (stream.rows == 0) {
        return;
    }
    tape.launch(drop_and_add_kernel, {.blocks = dim3(static_cast<uint32_t>(stream.rows)), .threads = kLinearThreads},
                DropArgs{.dropout = args_of(dropout),
                         .residual = residual.data,
                         .stream = stream.data,
                         .columns = stream.columns,
                         .residual_stride = residual.stride,
                         .stream_stride = stream.stride});
}

void put_sum_of_slices(Tape& tape, const float* slices, int64_t apart, int64_t count, DType dtype, const SumRest& rest,
                       AnyView output) {
    if (output.elements() == 0) {
        return;
    }
    const SlicesArgs args{.slices = slices,
                          .apart = apart,
                          .count = count,
                          .output = output.data,
                          .output_stride = output.stride,
                          .output_dtype = static_cast<int64_t>(output.dtype),
                          .elements = output.elements(),
                          .columns = output.columns,
                          .left = rest.left,
                          .left_stride = rest.left_stride,
                          .right = rest.right,
                          .right_row_stride = rest.right_along_depth ? rest.right_stride : 1,
                          .right_depth_stride = rest.right_along_depth ? 1 : rest.right_stride,
                          .rest = rest.depth};
    const bool has_fours = output.columns % 4 == 0;
    with_type(dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        tape.launch(has_fours ? sum_of_slices_kernel<T, 4> : sum_of_slices_kernel<T, 1>,
                    {.blocks = linear_blocks(has_fours ? args.elements / 4 : args.elements), .threads = kLinearThreads},
                    args);
    });
}

void put_hold_rows(Tape& tape, const HeldRows& held, float* gradient) {
    const int64_t rows = held.slot_of_row.columns;
    if (rows == 0 || held.values.rows == 0) {
        return;
    }
    tape.launch(hold_rows_kernel, {.blocks = linear_blocks(32 * rows), .threads = kLinearThreads},
                HoldArgs{.slot_of_row = held.slot_of_row.data,
                         .values = held.values.data,
                         .values_stride = held.values.stride,
                         .gradient = gradient,
                         .rows = rows,
                         .columns = held.values.columns});
}

}  // namespace accrue::cuda
