#include <algorithm>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/vectors.cuh"

namespace accrue::cuda {
namespace {

constexpr int64_t kMostThreads = 256;

struct RopeArgs {
    Target heads;
    const int32_t* positions = nullptr;
    const float* table = nullptr;
    int64_t table_stride = 0;
    int64_t head_columns = 0;
    int64_t groups = 0;  // of a row
    int64_t tiles = 0;   // of a row
    double direction = 1;
};

// Turns `count` neighbouring pairs of a head. Each element is one product and one fused sum, however many there are at once.
template <class T, int count>
__device__ inline void turn_pairs(T* x_place, T* y_place, const float* cosines, const float* sines, float direction) {
    float x[count];
    float y[count];
    float cosine[count];
    float sine[count];
    if constexpr (count == 1) {
        x[0] = to_float(*x_place);
        y[0] = to_float(*y_place);
        cosine[0] = *cosines;
        sine[0] = *sines;
    } else {
        load_vector(x_place, x);
        load_vector(y_place, y);
        load_vector(cosines, cosine);
        load_vector(sines, sine);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const float s = direction * sine[i];
        const float turned = fmaf(x[i], cosine[i], -(y[i] * s));
        y[i] = fmaf(y[i], cosine[i], x[i] * s);
        x[i] = turned;
    }
    if constexpr (count == 1) {
        *x_place = from_float<T>(x[0]);
        *y_place = from_float<T>(y[0]);
    } else {
        store_vector(x, x_place);
        store_vector(y, y_place);
    }
}

template <class T, int count>
__global__ void __launch_bounds__(kMostThreads) turn_heads(RopeArgs args) {
    const auto tiles = static_cast<uint32_t>(args.tiles);
    const int64_t row = blockIdx.x / tiles;
    const uint32_t group = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    if (group >= args.groups) {
        return;
    }
    const auto half = static_cast<uint32_t>(args.head_columns / 2);
    const uint32_t groups_of_head = half / count;
    const uint32_t head = group / groups_of_head;
    const uint32_t i = group % groups_of_head * count;
    T* x = static_cast<T*>(args.heads.data) + row * args.heads.stride + head * args.head_columns + i;
    const float* cosines = args.table + args.positions[row] * args.table_stride + i;
    turn_pairs<T, count>(x, x + half, cosines, cosines + half, static_cast<float>(args.direction));
}

void turn(Context& context, const AnyView& heads, View<const int32_t> positions, View<const float> table,
          double direction) {
    const int64_t half = table.columns / 2;
    if (heads.elements() == 0 || half == 0) {
        return;
    }
    constexpr int kVector = 8;
    const bool vectors = half % kVector == 0 && has_vectors(heads, kVector) && has_vectors(table, kVector);
    const int64_t groups = heads.columns / table.columns * half / (vectors ? kVector : 1);
    const int64_t threads = std::clamp<int64_t>((groups + 31) / 32 * 32, 32, kMostThreads);
    const int64_t tiles = (groups + threads - 1) / threads;
    const RopeArgs args{.heads = target_of(heads),
                        .positions = positions.data,
                        .table = table.data,
                        .table_stride = table.stride,
                        .head_columns = table.columns,
                        .groups = groups,
                        .tiles = tiles,
                        .direction = direction};
    const Shape shape{.blocks = dim3(static_cast<uint32_t>(heads.rows * tiles)),
                      .threads = static_cast<uint32_t>(threads)};
    with_type(heads.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        context.tape.launch(vectors ? turn_heads<T, kVector> : turn_heads<T, 1>, shape, args);
    });
}

}  // namespace

void lower(Context& context, const op::Rope& call, Scratch /*scratch*/) {
    turn(context, call.heads, call.positions, call.table, 1);
}

void lower(Context& context, const op::RopeGrad& call, Scratch /*scratch*/) {
    turn(context, call.d_heads, call.positions, call.table, -1);
}

}  // namespace accrue::cuda
