#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/sums_plan.h"
#include "accrue/kernels/cuda/update.cuh"

// The norm of a gradient, and updates with moments in fp32.
namespace accrue::cuda {
namespace {

constexpr int64_t kThreads = kFoursThreads;
constexpr int64_t kLastThreads = 1024;  // of the one block that puts a norm together

// A mean gradient whose squares are summed.
struct NormTensor {
    const void* sums = nullptr;
    int64_t elements = 0;
    double factor = 1;
    int32_t kind = 0;
    int32_t is_aligned = 0;
};
struct NormArgs {
    const int64_t* first_blocks = nullptr;  // of each tensor, and the end
    int64_t tensor_count = 0;
    const NormTensor* tensors = nullptr;
    NormScratch squares;
    double* result = nullptr;
};

// A thread's share of a block's squares: four at a time, each with a sum of its own. `whole`: aligned, a multiple of four.
template <bool whole, class Sum>
__device__ double thread_squares(const Sum* sums, int64_t count, double factor) {
    double squares[4] = {};
#pragma unroll 4
    for (int64_t i = threadIdx.x * 4; i < count; i += 4 * kThreads) {
        const Four<Sum> four = load_four<Reuse::none>(sums + i, whole ? 4 : count - i, whole);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const double x = mean_of(four.at[e], factor);
            squares[e] = fma(x, x, squares[e]);
        }
    }
    return (squares[0] + squares[1]) + (squares[2] + squares[3]);
}

__global__ void __launch_bounds__(kThreads) norm_blocks_kernel(NormArgs args) {
    __shared__ double warps[kThreads / 32];
    const int64_t block = blockIdx.x;
    const int64_t found = part_of_block(args.first_blocks, args.tensor_count, block);
    const NormTensor tensor = args.tensors[found];
    const int64_t first = (block - args.first_blocks[found]) * kNormBlock;
    const int64_t count = min(kNormBlock, tensor.elements - first);
    double squares = 0;
    with_sum_element(static_cast<SumKind>(tensor.kind), [&](auto tag) {
        const auto* sums = static_cast<const typename decltype(tag)::type*>(tensor.sums) + first;
        squares = tensor.is_aligned != 0 && count % 4 == 0 ? thread_squares<true>(sums, count, tensor.factor)
                                                           : thread_squares<false>(sums, count, tensor.factor);
    });
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = squares;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < kThreads / 32; ++w) {
            squares += warps[w];
        }
        args.squares.blocks[block] = squares;
    }
}

// One block: a warp for each tensor, then tensor by tensor.
__global__ void __launch_bounds__(kLastThreads) norm_kernel(NormArgs args) {
    const int64_t lane = threadIdx.x % 32;
    for (int64_t tensor = threadIdx.x / 32; tensor < args.tensor_count; tensor += kLastThreads / 32) {
        double squares = 0;
        for (int64_t block = args.first_blocks[tensor] + lane; block < args.first_blocks[tensor + 1]; block += 32) {
            squares += args.squares.blocks[block];
        }
        squares = warp_sum(squares);
        if (lane == 0) {
            args.squares.tensors[tensor] = squares;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = 0;
#pragma unroll 8
        for (int64_t tensor = 0; tensor < args.tensor_count; ++tensor) {
            all += args.squares.tensors[tensor];
        }
        *args.result = all;
    }
}

template <class Sum>
__device__ Four<float> load_gradients(const Sum* sums, double factor, int64_t left, bool is_aligned) {
    const Four<Sum> four = load_four<Reuse::none>(sums, left, is_aligned);
    Four<float> gradients;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        gradients.at[e] = __double2float_rn(mean_of(four.at[e], factor));
    }
    return gradients;
}

__device__ Four<float> load_floats(const float* from, int64_t left, bool is_aligned) {
    return load_four<Reuse::none>(from, left, is_aligned);
}

struct AdamWArgs {
    const void* sums = nullptr;
    float* weights = nullptr;
    float* first_moment = nullptr;
    float* second_moment = nullptr;
    WeightCopy copy;
    int64_t elements = 0;
    int64_t is_aligned = 0;
    const AdamWRule* rule = nullptr;
};

template <class Sum>
__global__ void __launch_bounds__(kThreads) adamw_kernel(AdamWArgs args) {
    const AdamWRule rule = *args.rule;
    const int64_t first = (blockIdx.x * kThreads + threadIdx.x) * 4;
    const int64_t left = args.elements - first;
    const bool is_aligned = args.is_aligned != 0;
    const Four<float> g = load_gradients(static_cast<const Sum*>(args.sums) + first, rule.factor, left, is_aligned);
    Four<float> m = load_floats(args.first_moment + first, left, is_aligned);
    Four<float> v = load_floats(args.second_moment + first, left, is_aligned);
    Four<float> weights = load_floats(args.weights + first, left, is_aligned);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        update_adamw(rule, g.at[e], m.at[e], v.at[e], weights.at[e]);
    }
    store_four<Reuse::none>(args.first_moment + first, m, left, is_aligned);
    store_four<Reuse::none>(args.second_moment + first, v, left, is_aligned);
    store_weights(args.weights, args.copy, first, weights, left, is_aligned);
}

struct SgdArgs {
    const void* sums = nullptr;
    float* weights = nullptr;
    float* velocity = nullptr;  // nothing without momentum
    WeightCopy copy;
    int64_t elements = 0;
    int64_t is_aligned = 0;
    const SgdRule* rule = nullptr;
};

template <class Sum>
__global__ void __launch_bounds__(kThreads) sgd_kernel(SgdArgs args) {
    const SgdRule rule = *args.rule;
    const int64_t first = (blockIdx.x * kThreads + threadIdx.x) * 4;
    const int64_t left = args.elements - first;
    const bool is_aligned = args.is_aligned != 0;
    const bool has_velocity = args.velocity != nullptr;
    const Four<float> g = load_gradients(static_cast<const Sum*>(args.sums) + first, rule.factor, left, is_aligned);
    Four<float> velocity{};
    if (has_velocity) {
        velocity = load_floats(args.velocity + first, left, is_aligned);
    }
    Four<float> weights = load_floats(args.weights + first, left, is_aligned);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        update_sgd(rule, has_velocity, g.at[e], velocity.at[e], weights.at[e]);
    }
    if (has_velocity) {
        store_four<Reuse::none>(args.velocity + first, velocity, left, is_aligned);
    }
    store_weights(args.weights, args.copy, first, weights, left, is_aligned);
}

}  // namespace

void lower(Context& context, const op::SquaredNorm& call, Scratch scratch) {
    std::vector<int64_t> first_blocks{0};
    std::vector<NormTensor> tensors;
    for (const MeanView& gradient : call.gradients) {
        tensors.push_back({.sums = gradient.data,
                           .elements = gradient.elements,
                           .factor = gradient.factor,
                           .kind = static_cast<int32_t>(gradient.kind),
                           .is_aligned = fits_four(gradient) ? 1 : 0});
        first_blocks.push_back(first_blocks.back() + norm_blocks(gradient.elements));
    }
    const NormArgs args{.first_blocks = context.tape.constant(std::span<const int64_t>(first_blocks)),
                        .tensor_count = std::ssize(tensors),
                        .tensors = context.tape.constant(std::span<const NormTensor>(tensors)),
                        .squares = norm_scratch(scratch, call.gradients),
                        .result = call.result.data};
    if (first_blocks.back() > 0) {
        context.tape.launch(norm_blocks_kernel,
                            {.blocks = dim3(static_cast<uint32_t>(first_blocks.back())), .threads = kThreads}, args);
    }
    context.tape.launch(norm_kernel, {.threads = kLastThreads}, args);
}

void lower(Context& context, const op::UpdateAdamW& call, Scratch /*scratch*/) {
    if (call.gradient.elements == 0) {
        return;
    }
    const bool is_aligned = fits_four(call.gradient) && fits_four(call.weights.data) &&
                            fits_four(call.first_moment.data) && fits_four(call.second_moment.data) &&
                            fits_four(call.copy);
    const AdamWRule rule = rule_of(call.gradient, call.settings);
    const AdamWArgs args{.sums = call.gradient.data,
                         .weights = call.weights.data,
                         .first_moment = call.first_moment.data,
                         .second_moment = call.second_moment.data,
                         .copy = copy_of(call.copy),
                         .elements = call.gradient.elements,
                         .is_aligned = is_aligned ? 1 : 0,
                         .rule = context.tape.constant(std::span(&rule, 1))};
    with_sum_element(call.gradient.kind, [&](auto tag) {
        context.tape.launch(adamw_kernel<typename decltype(tag)::type>,
                            {.blocks = blocks_of_fours(args.elements), .threads = kThreads}, args);
    });
}

void lower(Context& context, const op::UpdateSgd& call, Scratch /*scratch*/) {
    if (call.gradient.elements == 0) {
        return;
    }
    const bool is_aligned = fits_four(call.gradient) && fits_four(call.weights.data) && fits_four(call.velocity.data) &&
                            fits_four(call.copy);
    const SgdRule rule = rule_of(call.gradient, call.settings);
    const SgdArgs args{.sums = call.gradient.data,
                       .weights = call.weights.data,
                       .velocity = call.velocity.data,
                       .copy = copy_of(call.copy),
                       .elements = call.gradient.elements,
                       .is_aligned = is_aligned ? 1 : 0,
                       .rule = context.tape.constant(std::span(&rule, 1))};
    with_sum_element(call.gradient.kind, [&](auto tag) {
        context.tape.launch(sgd_kernel<typename decltype(tag)::type>,
                            {.blocks = blocks_of_fours(args.elements), .threads = kThreads}, args);
    });
}

}  // namespace accrue::cuda
