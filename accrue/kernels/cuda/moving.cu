#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/device.cuh"
#include "accrue/kernels/cuda/four.cuh"

// Copies between types, and zeros.
namespace accrue::cuda {
namespace {

constexpr uint32_t kMostThreads = 256;

struct CastArgs {
    const float* input = nullptr;
    int64_t input_stride = 0;
    DropoutArgs dropout;
    void* output = nullptr;
    int64_t output_stride = 0;
    int64_t columns = 0;
    int64_t pieces = 0;      // of a row
    int64_t is_aligned = 0;  // every row of both
};

template <class T>
__global__ void __launch_bounds__(kMostThreads) cast_kernel(CastArgs args) {
    const auto pieces = static_cast<uint32_t>(args.pieces);
    const int64_t row = blockIdx.x / pieces;
    const int64_t column = (static_cast<int64_t>(blockIdx.x % pieces) * blockDim.x + threadIdx.x) * 4;
    const int64_t left = args.columns - column;
    const bool is_aligned = args.is_aligned != 0;
    Four<float> x = load_four<Reuse::soon>(args.input + row * args.input_stride + column, left, is_aligned);
    if (args.dropout.rows != nullptr) {
        const uint64_t key = args.dropout.row_key(row);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float factor = args.dropout.factor(key, static_cast<uint64_t>(column + e));
            x.at[e] = factor == 0 ? 0 : x.at[e] * factor;
        }
    }
    Four<T> rounded;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        rounded.at[e] = from_float<T>(x.at[e]);
    }
    store_four<Reuse::soon>(static_cast<T*>(args.output) + row * args.output_stride + column, rounded, left,
                            is_aligned);
}

struct ZeroArgs {
    std::byte* memory = nullptr;  // aligned to its words
    int64_t bytes = 0;
};
constexpr int64_t kZeroWord = sizeof(uint4);

// A word for each thread, and a byte for each that finds less than one.
__global__ void __launch_bounds__(kMostThreads) zero_kernel(ZeroArgs args) {
    const int64_t words = args.bytes / kZeroWord;
    const int64_t word = static_cast<int64_t>(blockIdx.x) * kMostThreads + threadIdx.x;
    const int64_t byte = words * kZeroWord + (word - words);
    if (word < words) {
        reinterpret_cast<uint4*>(args.memory)[word] = uint4{};
    } else if (byte < args.bytes) {
        args.memory[byte] = std::byte{0};
    }
}

// The same elements as one row, where that is how they lie and nobody asks for rows.
op::Cast as_one_row(op::Cast call) {
    const int64_t columns = call.output.columns;
    if (call.dropout.probability == 0 && call.input.stride == columns && call.output.stride == columns) {
        const int64_t elements = call.output.elements();
        call.input = {call.input.data, 1, elements};
        call.output = {call.output.data, call.output.dtype, 1, elements};
    }
    return call;
}

template <class T>
void launch_cast(Context& context, const op::Cast& call) {
    const auto [threads, pieces] = row_pieces(call.output.columns);
    const bool is_aligned = fits_four(call.input.data, call.input.stride) &&
                            fits_four(static_cast<const T*>(call.output.data), call.output.stride);
    const CastArgs args{.input = call.input.data,
                        .input_stride = call.input.stride,
                        .dropout = args_of(call.dropout),
                        .output = call.output.data,
                        .output_stride = call.output.stride,
                        .columns = call.output.columns,
                        .pieces = pieces,
                        .is_aligned = is_aligned ? 1 : 0};
    context.tape.launch(cast_kernel<T>,
                        {.blocks = dim3(static_cast<uint32_t>(call.output.rows * pieces)), .threads = threads}, args);
}

}  // namespace

void lower(Context& context, const op::Cast& call, Scratch /*scratch*/) {
    if (call.output.elements() == 0) {
        return;
    }
    with_type(call.output.dtype,
              [&](auto tag) { launch_cast<typename decltype(tag)::type>(context, as_one_row(call)); });
}

void lower(Context& context, const op::FillZero& call, Scratch /*scratch*/) {
    const int64_t bytes = std::ssize(call.memory);
    if (!context.arena.is_on_host(call.memory.data()) || bytes == 0) {
        context.tape.fill_zero(call.memory.data(), bytes);
        return;
    }
    // The runtime's own way to fill memory may make the host wait where the memory is the host's.
    const int64_t threads = bytes / kZeroWord + bytes % kZeroWord;
    context.tape.launch(
        zero_kernel,
        {.blocks = dim3(static_cast<uint32_t>((threads + kMostThreads - 1) / kMostThreads)), .threads = kMostThreads},
        ZeroArgs{.memory = call.memory.data(), .bytes = bytes});
}

}  // namespace accrue::cuda
