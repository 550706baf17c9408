#include <algorithm>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/instructions.cuh"
#include "accrue/kernels/cuda/vectors.cuh"

// Losses of rows of logits and their gradients, which may take the logits' place.
namespace accrue::cuda {
namespace {

constexpr int kGroup = 8;  // neighbouring logits of a thread
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kSumThreads = 256;

struct LossArgs {
    Source logits;
    Target d_logits;
    const int32_t* targets = nullptr;
    float* losses = nullptr;
    int64_t columns = 0;
    int64_t vectors = 0;  // 1: groups that are all there move in words
    float scale = 1;
    float padding = 0;
};

// Where a row is read again: it stays in shared memory where it fits. Each thread reads only what it has brought there.
template <class T, bool cached>
class RowOfLogits {
public:
    __device__ RowOfLogits(const LossArgs& args, int64_t row, std::byte* shared)
        : row_(static_cast<const T*>(args.logits.data) + row * args.logits.stride),
          cache_(reinterpret_cast<T*>(shared)),
          columns_(args.columns),
          vectors_(args.vectors != 0) {
        if constexpr (cached) {
            constexpr int kPieces = kGroup * static_cast<int>(sizeof(T)) / 16;
            constexpr int kOfPiece = kGroup / kPieces;
            for (int64_t first = this->first(); first + kGroup <= columns_; first += step()) {
#pragma unroll
                for (int i = 0; i < kPieces; ++i) {
                    copy_16_bytes(cache_ + first + i * kOfPiece, row_ + first + i * kOfPiece);
                }
            }
            close_copies();
            wait_for_copies<0>();
        }
    }

    // A thread's groups begin at first(), first() + step()... below the number of columns.
    [[nodiscard]] static __device__ int64_t first() {
        return static_cast<int64_t>(threadIdx.x) * kGroup;
    }
    [[nodiscard]] static __device__ int64_t step() {
        return static_cast<int64_t>(blockDim.x) * kGroup;
    }

    // Beyond the end -infinity.
    __device__ void load(int64_t place, float (&values)[kGroup]) const {
        if (vectors_ && place + kGroup <= columns_) {
            load_vector(static_cast<const T*>(cached ? cache_ + place : row_ + place), values);
            return;
        }
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            values[i] = place + i < columns_ ? to_float(row_[place + i]) : -INFINITY;
        }
    }
    [[nodiscard]] __device__ float at(int64_t column) const {
        return to_float(row_[column]);
    }

private:
    const T* row_;
    T* cache_;
    int64_t columns_;
    bool vectors_;
};

// All threads get `join` of all their values, warps in their order. All call it; `places` are of this call alone.
template <class Join>
__device__ float of_block(float value, float (&places)[32], const Join& join) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value = join(value, __shfl_xor_sync(0xffffffffU, value, distance));
    }
    if (threadIdx.x % 32 == 0) {
        places[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float all = places[0];
    for (uint32_t warp = 1; warp < blockDim.x / 32; ++warp) {
        all = join(all, places[warp]);
    }
    return all;
}

__device__ float exponential(float x, float largest) {
    constexpr float kLog2E = 1.442695040888963407F;
    return power_of_two((x - largest) * kLog2E);
}

// A block has a row.
template <class T, bool cached>
__global__ void __launch_bounds__(kMostThreads, 2) loss_kernel(LossArgs args) {
    __shared__ float of_largest[32];
    __shared__ float of_sum[32];
    const int64_t row = blockIdx.x;
    const int32_t target = args.targets[row];
    using Row = RowOfLogits<T, cached>;
    if (target < 0) {
        const float none[kGroup] = {};
        for (int64_t c = Row::first(); c < args.columns && args.d_logits.data != nullptr; c += Row::step()) {
            store_any(none, args.d_logits, row * args.d_logits.stride + c, args.columns - c, args.vectors != 0);
        }
        if (threadIdx.x == 0) {
            args.losses[row] = 0;
        }
        return;
    }
    const Row logits(args, row, dynamic_shared());
    const float of_target = logits.at(target);  // before it is overwritten
    float values[kGroup];
    float largest = -INFINITY;
    for (int64_t c = Row::first(); c < args.columns; c += Row::step()) {
        logits.load(c, values);
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            largest = fmaxf(largest, values[i]);
        }
    }
    largest = of_block(largest, of_largest, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0;
    for (int64_t c = Row::first(); c < args.columns; c += Row::step()) {
        logits.load(c, values);
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            sum += exponential(values[i], largest);
        }
    }
    sum = of_block(sum, of_sum, [](float a, float b) { return a + b; });
    if (threadIdx.x == 0) {
        args.losses[row] = (largest - of_target) + logf(sum);
    }
    if (args.d_logits.data == nullptr) {
        return;
    }
    const float share = 1 / sum;
    for (int64_t c = Row::first(); c < args.columns; c += Row::step()) {
        logits.load(c, values);
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            const float probability = exponential(values[i], largest) * share;
            values[i] = args.scale * (c + i == target ? probability - 1 : probability);
        }
        store_any(values, args.d_logits, row * args.d_logits.stride + c, args.columns - c, args.vectors != 0);
    }
}

// Where a micro-batch leaves its losses changes from one to the next: a constant, so that they are one graph.
struct GrainLossesArgs {
    const float* losses = nullptr;
    const RowRange* grains = nullptr;
    double* const* sums = nullptr;
};

// A block has a grain.
__global__ void __launch_bounds__(kSumThreads) grain_losses_kernel(GrainLossesArgs args) {
    __shared__ double warps[kSumThreads / 32];
    const RowRange grain = args.grains[blockIdx.x];
    double sum = 0;
    for (int64_t r = threadIdx.x; r < grain.rows; r += kSumThreads) {
        sum += static_cast<double>(args.losses[grain.first + r]);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = 0;
        for (const double of_warp : warps) {
            all += of_warp;
        }
        (*args.sums)[blockIdx.x] = all;
    }
}

template <class T>
void put_losses(Context& context, const LossArgs& args, int64_t rows) {
    const int64_t groups = (args.columns + kGroup - 1) / kGroup;
    const int64_t threads = std::clamp<int64_t>((groups + 31) / 32 * 32, 32, kMostThreads);
    const int64_t row_bytes = args.columns * static_cast<int64_t>(sizeof(T));
    constexpr int64_t kBesideRow = 1024;
    const bool is_cached = args.vectors != 0 && row_bytes + kBesideRow <= context.shared_bytes;
    context.tape.launch(is_cached ? loss_kernel<T, true> : loss_kernel<T, false>,
                        {.blocks = dim3(static_cast<uint32_t>(rows)),
                         .threads = static_cast<uint32_t>(threads),
                         .shared_bytes = is_cached ? static_cast<uint32_t>((row_bytes + 15) / 16 * 16) : 0},
                        args);
}

}  // namespace

void lower(Context& context, const op::CrossEntropy& call, Scratch /*scratch*/) {
    if (call.logits.rows == 0) {
        return;
    }
    const bool vectors =
        has_vectors(call.logits, kGroup) && (call.d_logits.empty() || has_vectors(call.d_logits, kGroup));
    const LossArgs args{.logits = source_of(call.logits),
                        .d_logits = call.d_logits.empty() ? Target{} : target_of(call.d_logits),
                        .targets = call.targets.data,
                        .losses = call.losses.data,
                        .columns = call.logits.columns,
                        .vectors = vectors ? 1 : 0,
                        .scale = call.scale};
    with_type(call.logits.dtype,
              [&](auto tag) { put_losses<typename decltype(tag)::type>(context, args, call.logits.rows); });
}

void lower(Context& context, const op::GrainLosses& call, Scratch /*scratch*/) {
    if (call.grains.empty()) {
        return;
    }
    const GrainLossesArgs args{.losses = call.losses.data,
                               .grains = context.tape.constant(call.grains),
                               .sums = context.tape.constant(std::span(&call.sums.data, 1))};
    context.tape.launch(grain_losses_kernel,
                        {.blocks = dim3(static_cast<uint32_t>(call.grains.size())), .threads = kSumThreads}, args);
}

}  // namespace accrue::cuda
