#include "accrue/kernels/cuda/attention_simple.h"

// Each warp owns a few rows; those that they meet come in blocks of 32, one for each lane, in ascending order. Scores are
// dots of whole heads, taken some columns at a time. The sums of mixed rows are for one slice of a head's columns: a head
// that is larger has its scores computed once more for each slice.
namespace accrue::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsOfWarp = 4;
constexpr int kRowsOfBlock = kThreads / 32 * kRowsOfWarp;
constexpr int kOthers = 32;
constexpr int kChunk = 64;                   // columns of a dot that are in shared memory
constexpr int kColumnsOfLane = 4;            // of a slice
constexpr int kSlice = 32 * kColumnsOfLane;  // columns of mixed rows
constexpr int kChunkStride = kChunk + 4;     // eight lanes that read 16 bytes below one another meet all banks
static_assert(kRowsOfBlock == kOthers);

struct Workplace {
    float4 own[kRowsOfBlock][kChunkStride / 4];
    float4 others[kOthers][kChunkStride / 4];
    float4 slice[kOthers][kSlice / 4];
};

// Some columns of 32 rows of a head, and 0 where there is none. All threads of the block together.
template <class T, int kVectors>
__device__ void stage(float4 (&to)[kOthers][kVectors], const HeadRows<T>& rows, int first_row, int first_column,
                      int columns) {
    for (int i = static_cast<int>(threadIdx.x); i < kOthers * columns; i += kThreads) {
        const int r = i / columns;
        const int c = i % columns;
        const bool exists = first_row + r < rows.rows && first_column + c < rows.columns;
        reinterpret_cast<float*>(to[r])[c] =
            exists ? to_float(rows.first[(first_row + r) * rows.stride + first_column + c]) : 0.0F;
    }
}

// dots[r] = the warp's row r of `own` times this lane's row of `others`.
template <class T>
__device__ void dots_of(float (&dots)[kRowsOfWarp], Workplace& place, const HeadRows<T>& own, int first_own,
                        const HeadRows<T>& others, int first_other) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (float& dot : dots) {
        dot = 0;
    }
    for (int first_column = 0; first_column < own.columns; first_column += kChunk) {
        __syncthreads();
        stage(place.own, own, first_own, first_column, kChunk);
        stage(place.others, others, first_other, first_column, kChunk);
        __syncthreads();
#pragma unroll 4
        for (int c = 0; c < kChunk / 4; ++c) {
            const float4 b = place.others[lane][c];
#pragma unroll
            for (int r = 0; r < kRowsOfWarp; ++r) {
                const float4 a = place.own[warp * kRowsOfWarp + r][c];
                dots[r] = fmaf(a.x, b.x, dots[r]);
                dots[r] = fmaf(a.y, b.y, dots[r]);
                dots[r] = fmaf(a.z, b.z, dots[r]);
                dots[r] = fmaf(a.w, b.w, dots[r]);
            }
        }
    }
}

// sums[r] += the weight that each lane has for its row of `others` and the warp's row r, times this lane's columns of it.
template <class T>
__device__ void add_mix(float (&sums)[kRowsOfWarp][kColumnsOfLane], const float (&weights)[kRowsOfWarp],
                        Workplace& place, const HeadRows<T>& others, int first_other, int first_column) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncthreads();
    stage(place.slice, others, first_other, first_column, kSlice);
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < kOthers; ++j) {
        const float4 x = place.slice[j][lane];
#pragma unroll
        for (int r = 0; r < kRowsOfWarp; ++r) {
            const float weight = __shfl_sync(0xffffffffU, weights[r], j);
            sums[r][0] = fmaf(weight, x.x, sums[r][0]);
            sums[r][1] = fmaf(weight, x.y, sums[r][1]);
            sums[r][2] = fmaf(weight, x.z, sums[r][2]);
            sums[r][3] = fmaf(weight, x.w, sums[r][3]);
        }
    }
}

__device__ void store_slice(const Target& to, int64_t row, int64_t head, int64_t head_size, int first_column,
                            const float (&sums)[kColumnsOfLane], float factor) {
    for (int i = 0; i < kColumnsOfLane; ++i) {
        const int column = first_column + static_cast<int>(threadIdx.x) % 32 * kColumnsOfLane + i;
        if (column < head_size) {
            store_one(to, row * to.stride + head * head_size + column, sums[i] * factor);
        }
    }
}

// What a block works on.
struct Work {
    Segment segment;
    int64_t head;
    int length;
    int first;          // row of the block in the segment
    int first_of_warp;  // and of this warp
    int first_column;   // of its slice
    int lane;
    bool causal;
};

__device__ Work work_of(const AttentionArgs& args, int64_t heads, int block) {
    const Segment segment = args.segments[blockIdx.x / heads];
    const int first = block * kRowsOfBlock;
    return {.segment = segment,
            .head = static_cast<int64_t>(blockIdx.x % heads),
            .length = static_cast<int>(segment.length),
            .first = first,
            .first_of_warp = first + static_cast<int>(threadIdx.x) / 32 * kRowsOfWarp,
            .first_column = static_cast<int>(blockIdx.z) * kSlice,
            .lane = static_cast<int>(threadIdx.x) % 32,
            .causal = args.causal != 0};
}

template <class T>
__global__ void __launch_bounds__(kThreads) attend(AttentionForwardArgs args) {
    __shared__ Workplace place;
    const AttentionArgs& attention = args.attention;
    const int64_t head_size = attention.head_size;
    const Work work = work_of(attention, attention.query_heads, static_cast<int>(gridDim.y - 1 - blockIdx.y));
    if (work.first >= work.length) {
        return;
    }
    const HeadRows<T> query = head_rows<T>(attention.query, work.segment, work.head, head_size);
    const HeadRows<T> key = head_rows<T>(attention.key, work.segment, work.head / attention.group, head_size);
    const HeadRows<T> value = head_rows<T>(attention.value, work.segment, work.head / attention.group, head_size);
    const bool drops = attention.dropout.rows != nullptr;
    uint64_t row_keys[kRowsOfWarp] = {};
    float largest[kRowsOfWarp];
    float sum[kRowsOfWarp] = {};
    float mixed[kRowsOfWarp][kColumnsOfLane] = {};
    for (int r = 0; r < kRowsOfWarp; ++r) {
        largest[r] = -INFINITY;
        if (drops && work.first_of_warp + r < work.length) {
            row_keys[r] = attention.dropout.row_key(work.segment.first + work.first_of_warp + r);
        }
    }
    const int seen_by_block = work.causal ? min(work.first + kRowsOfBlock, work.length) : work.length;
    for (int first_key = 0; first_key < seen_by_block; first_key += kOthers) {
        float dots[kRowsOfWarp];
        float weights[kRowsOfWarp];
        dots_of(dots, place, query, work.first, key, first_key);
        const int j = first_key + work.lane;
#pragma unroll
        for (int r = 0; r < kRowsOfWarp; ++r) {
            const int seen = work.causal ? work.first_of_warp + r + 1 : work.length;
            const float score = j < seen ? dots[r] * attention.scale : -INFINITY;
            const float now = fmaxf(largest[r], warp_max(score));
            const float base = now == -INFINITY ? 0.0F : now;
            const float shrink = expf(largest[r] - base);
            const float p = expf(score - base);
            largest[r] = now;
            sum[r] = sum[r] * shrink + warp_sum(p);
            for (float& x : mixed[r]) {
                x *= shrink;
            }
            weights[r] = drops ? p * probability_factor(attention.dropout, row_keys[r], work.head, j) : p;
        }
        add_mix(mixed, weights, place, value, first_key, work.first_column);
    }
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
        if (work.first_of_warp + r >= work.length) {
            continue;
        }
        const int64_t row = work.segment.first + work.first_of_warp + r;
        store_slice(args.output, row, work.head, head_size, work.first_column, mixed[r], 1 / sum[r]);
        if (work.first_column == 0 && work.lane == 0) {
            args.log_sum[row * args.log_sum_stride + work.head] = largest[r] + logf(sum[r]);
        }
    }
}

template <class T>
__global__ void __launch_bounds__(kThreads) differentiate_queries(AttentionBackwardArgs args) {
    __shared__ Workplace place;
    const AttentionArgs& attention = args.attention;
    const int64_t head_size = attention.head_size;
    const Work work = work_of(attention, attention.query_heads, static_cast<int>(gridDim.y - 1 - blockIdx.y));
    if (work.first >= work.length) {
        return;
    }
    const HeadRows<T> query = head_rows<T>(attention.query, work.segment, work.head, head_size);
    const HeadRows<T> d_output = head_rows<T>(args.d_output, work.segment, work.head, head_size);
    const HeadRows<T> key = head_rows<T>(attention.key, work.segment, work.head / attention.group, head_size);
    const HeadRows<T> value = head_rows<T>(attention.value, work.segment, work.head / attention.group, head_size);
    const bool drops = attention.dropout.rows != nullptr;
    uint64_t row_keys[kRowsOfWarp] = {};
    float log_sum[kRowsOfWarp] = {};
    float delta[kRowsOfWarp] = {};
    float d_query[kRowsOfWarp][kColumnsOfLane] = {};
    for (int r = 0; r < kRowsOfWarp; ++r) {
        if (work.first_of_warp + r < work.length) {
            const int64_t row = work.segment.first + work.first_of_warp + r;
            log_sum[r] = args.log_sum[row * args.log_sum_stride + work.head];
            delta[r] = args.delta[row * attention.query_heads + work.head];
            row_keys[r] = drops ? attention.dropout.row_key(row) : 0;
        }
    }
    const int seen_by_block = work.causal ? min(work.first + kRowsOfBlock, work.length) : work.length;
    for (int first_key = 0; first_key < seen_by_block; first_key += kOthers) {
        float scores[kRowsOfWarp];
        float gains[kRowsOfWarp];
        dots_of(scores, place, query, work.first, key, first_key);
        dots_of(gains, place, d_output, work.first, value, first_key);
        const int j = first_key + work.lane;
#pragma unroll
        for (int r = 0; r < kRowsOfWarp; ++r) {
            const int seen = work.causal ? work.first_of_warp + r + 1 : work.length;
            const float p = j < seen ? expf(scores[r] * attention.scale - log_sum[r]) : 0.0F;
            const float factor = drops ? probability_factor(attention.dropout, row_keys[r], work.head, j) : 1.0F;
            gains[r] = p * (gains[r] * factor - delta[r]);
        }
        add_mix(d_query, gains, place, key, first_key, work.first_column);
    }
    for (int r = 0; r < kRowsOfWarp; ++r) {
        if (work.first_of_warp + r < work.length) {
            store_slice(args.d_query, work.segment.first + work.first_of_warp + r, work.head, head_size,
                        work.first_column, d_query[r], attention.scale);
        }
    }
}

template <class T>
__global__ void __launch_bounds__(kThreads) differentiate_keys(AttentionBackwardArgs args) {
    __shared__ Workplace place;
    const AttentionArgs& attention = args.attention;
    const int64_t head_size = attention.head_size;
    const Work work = work_of(attention, attention.key_heads, static_cast<int>(blockIdx.y));
    if (work.first >= work.length) {
        return;
    }
    const HeadRows<T> key = head_rows<T>(attention.key, work.segment, work.head, head_size);
    const HeadRows<T> value = head_rows<T>(attention.value, work.segment, work.head, head_size);
    const bool drops = attention.dropout.rows != nullptr;
    float d_key[kRowsOfWarp][kColumnsOfLane] = {};
    float d_value[kRowsOfWarp][kColumnsOfLane] = {};
    for (int64_t head = work.head * attention.group; head < (work.head + 1) * attention.group; ++head) {
        const HeadRows<T> query = head_rows<T>(attention.query, work.segment, head, head_size);
        const HeadRows<T> d_output = head_rows<T>(args.d_output, work.segment, head, head_size);
        for (int first_query = work.causal ? work.first : 0; first_query < work.length; first_query += kOthers) {
            float scores[kRowsOfWarp];
            float gains[kRowsOfWarp];
            dots_of(scores, place, key, work.first, query, first_query);
            dots_of(gains, place, value, work.first, d_output, first_query);
            const int i = first_query + work.lane;
            const int64_t row = work.segment.first + min(i, work.length - 1);
            const float log_sum = args.log_sum[row * args.log_sum_stride + head];
            const float delta = args.delta[row * attention.query_heads + head];
            const uint64_t row_key = drops ? attention.dropout.row_key(row) : 0;
#pragma unroll
            for (int r = 0; r < kRowsOfWarp; ++r) {
                const int j = work.first_of_warp + r;
                const bool seen = i < work.length && (!work.causal || j <= i);
                const float p = seen ? expf(scores[r] * attention.scale - log_sum) : 0.0F;
                const float factor = drops ? probability_factor(attention.dropout, row_key, head, j) : 1.0F;
                gains[r] = p * (gains[r] * factor - delta);
                scores[r] = p * factor;
            }
            add_mix(d_value, scores, place, d_output, first_query, work.first_column);
            add_mix(d_key, gains, place, query, first_query, work.first_column);
        }
    }
    for (int r = 0; r < kRowsOfWarp; ++r) {
        if (work.first_of_warp + r < work.length) {
            const int64_t row = work.segment.first + work.first_of_warp + r;
            store_slice(args.d_key, row, work.head, head_size, work.first_column, d_key[r], attention.scale);
            store_slice(args.d_value, row, work.head, head_size, work.first_column, d_value[r], 1.0F);
        }
    }
}

template <class Op>
Shape shape_of(const Op& call, int64_t heads) {
    dim3 blocks = blocks_of_heads(call.segments, heads, kRowsOfBlock);
    blocks.z = static_cast<uint32_t>((call.shape.head_size + kSlice - 1) / kSlice);
    return {.blocks = blocks, .threads = kThreads};
}

}  // namespace

void launch_simple_attention(Context& context, const op::Attention& call, const AttentionForwardArgs& args) {
    with_type(call.query.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        context.tape.launch(attend<T>, shape_of(call, call.shape.query_heads), args);
    });
}

void launch_simple_attention_grad(Context& context, const op::AttentionGrad& call, const AttentionBackwardArgs& args) {
    with_type(call.query.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        context.tape.launch(differentiate_keys<T>, shape_of(call, call.shape.key_heads), args);
        context.tape.launch(differentiate_queries<T>, shape_of(call, call.shape.query_heads), args);
    });
}

}  // namespace accrue::cuda
