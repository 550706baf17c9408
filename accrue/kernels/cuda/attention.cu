#include "accrue/kernels/cuda/attention.h"
#include "accrue/kernels/cuda/attention_simple.h"
#include "accrue/kernels/cuda/attention_tiles.cuh"

// Forward attention in one pass: a block has some query rows of a head, which meet the keys they see in blocks, in
// ascending order, while the largest score, the sum of exponentials and the mixed values of each row are kept up to date.
namespace accrue::cuda {
namespace {

// A warp has kM times 16 queries. While a block of keys and values is worked on, the next one is on its way.
template <int kD, int kKeys_>
struct ForwardTiles {
    static constexpr int kKeys = kKeys_;
    static constexpr int kM = kD <= 128 ? 2 : 1;
    static constexpr int kQueriesOfWarp = 16 * kM;
    static constexpr int kQueries = 4 * kQueriesOfWarp;
    static constexpr bool kQueryInRegisters = kD <= 64;  // beyond, there is no room beside the sums
    static constexpr int kBlocksAtOnce = kD <= 128 ? 2 : 1;
    static constexpr int kTile = kKeys * kTileStride<kD>;
    // Queries that stay in registers come in through the second stage.
    static constexpr int64_t kSharedBytes =
        4 * tile_bytes<kD>(kKeys) + (kQueryInRegisters ? 0 : tile_bytes<kD>(kQueries));
    static_assert(!kQueryInRegisters || kQueries <= 2 * kKeys);
};

// What a lane keeps of its rows, two for each 16 of its warp: exponentials are of differences to the largest score.
template <int kM>
struct RowState {
    float largest[kM][2];
    float sum[kM][2];  // of this lane's columns only, until the end
};

// Keys that a row does not see get a score of -infinity.
template <int kM, int kN>
__device__ void hide_scores(float (&scores)[kM][kN][4], int first_query, int first_key, int length, bool causal) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int query = first_query + m * 16 + half * 8 + lane_row();
            const int seen = causal ? query + 1 : length;
#pragma unroll
            for (int n = 0; n < kN; ++n) {
                const int key = first_key + n * 8 + lane_column();
                scores[m][n][2 * half] = key < seen ? scores[m][n][2 * half] : -INFINITY;
                scores[m][n][2 * half + 1] = key + 1 < seen ? scores[m][n][2 * half + 1] : -INFINITY;
            }
        }
    }
}

// Scores become exponentials, and what was summed so far is brought to the new largest score. A row that has seen
// nothing but -infinity takes differences to 0.
template <int kM, int kN, int kPieces>
__device__ void take_exponentials(float (&scores)[kM][kN][4], RowState<kM>& rows, float (&sums)[kM][kPieces][4],
                                  float scale) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float largest = rows.largest[m][half];
#pragma unroll
            for (int n = 0; n < kN; ++n) {
                largest = fmaxf(largest, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
            }
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
            const float base = largest == -INFINITY ? 0.0F : largest * scale;
            const float shrink = power_of_two(fmaf(rows.largest[m][half], scale, -base));
            rows.largest[m][half] = largest;
            float sum = rows.sum[m][half] * shrink;
#pragma unroll
            for (int n = 0; n < kN; ++n) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; ++i) {
                    scores[m][n][i] = power_of_two(fmaf(scores[m][n][i], scale, -base));
                    sum += scores[m][n][i];
                }
            }
            rows.sum[m][half] = sum;
#pragma unroll
            for (int n = 0; n < kPieces; ++n) {
                sums[m][n][2 * half] *= shrink;
                sums[m][n][2 * half + 1] *= shrink;
            }
        }
    }
}

template <int kM, int kN>
__device__ void drop_some(float (&weights)[kM][kN][4], const DropoutArgs& dropout, const uint64_t (&row_keys)[kM][2],
                          int64_t head, int first_key) {
#pragma unroll
    for (int i = 0; i < kM * kN * 4; ++i) {
        const int m = i / 4 / kN;
        const int n = i / 4 % kN;
        const int key = first_key + n * 8 + lane_column() + i % 2;
        weights[m][n][i % 4] *= probability_factor(dropout, row_keys[m][i / 2 % 2], head, key);
    }
}

template <class T, int kM, int kPieces>
__device__ void store_rows(const AttentionForwardArgs& args, const Segment& segment, int64_t head, int first_query,
                           const RowState<kM>& rows, const float (&sums)[kM][kPieces][4], float scale) {
    constexpr float kLogOf2 = 0.693147182F;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = rows.sum[m][half];
            sum += __shfl_xor_sync(0xffffffffU, sum, 1);
            sum += __shfl_xor_sync(0xffffffffU, sum, 2);
            const int query = first_query + m * 16 + half * 8 + lane_row();
            if (query >= segment.length) {
                continue;
            }
            const int64_t row = segment.first + query;
            store_row<T>(args.output, row, head, args.attention.head_size, sums[m], half, 1 / sum);
            if (lane_column() == 0) {
                const float largest = rows.largest[m][half];
                const float base = largest == -INFINITY ? 0.0F : largest * scale;
                args.log_sum[row * args.log_sum_stride + head] = fmaf(base, kLogOf2, logf(sum));
            }
        }
    }
}

template <class T, int kD, int kKeys, bool kDrops>
__global__ void __launch_bounds__(kAttentionThreads, (ForwardTiles<kD, kKeys>::kBlocksAtOnce))
    attend(AttentionForwardArgs args) {
    using Tiles = ForwardTiles<kD, kKeys>;
    constexpr int kM = Tiles::kM;
    constexpr int kN = kKeys / 8;
    const AttentionArgs& attention = args.attention;
    const int64_t head = blockIdx.x % attention.query_heads;
    const Segment segment = attention.segments[blockIdx.x / attention.query_heads];
    const int length = static_cast<int>(segment.length);
    const int first = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Tiles::kQueries;  // the longest rows begin
    if (first >= length) {
        return;
    }
    const bool causal = attention.causal != 0;
    const bool in_vectors = attention.in_vectors != 0;
    const HeadRows<T> query = head_rows<T>(attention.query, segment, head, attention.head_size);
    const HeadRows<T> key = head_rows<T>(attention.key, segment, head / attention.group, attention.head_size);
    const HeadRows<T> value = head_rows<T>(attention.value, segment, head / attention.group, attention.head_size);
    T* const stages = reinterpret_cast<T*>(dynamic_shared());
    T* const query_tile = stages + (Tiles::kQueryInRegisters ? 2 : 4) * Tiles::kTile;

    load_tile<kD, Tiles::kQueries>(query_tile, query, first, in_vectors);
    close_copies();
    load_tile<kD, kKeys>(stages, key, 0, in_vectors);
    load_tile<kD, kKeys>(stages + Tiles::kTile, value, 0, in_vectors);
    close_copies();

    const int first_of_warp = first + warp_of_block() * Tiles::kQueriesOfWarp;
    const int seen_by_block = causal ? min(first + Tiles::kQueries, length) : length;
    // Of the keys that some row of this warp sees, and those that all of its rows see.
    const int seen_by_warp = first_of_warp >= length ? 0
                             : causal                ? min(first_of_warp + Tiles::kQueriesOfWarp, length)
                                                     : length;
    const int seen_by_all = causal ? min(first_of_warp + 1, length) : length;
    const bool turned = attention.power_scale < 0;
    const float scale = fabsf(attention.power_scale);

    uint64_t row_keys[kM][2] = {};
    if constexpr (kDrops) {
        for (int i = 0; i < kM * 2; ++i) {
            const int row = min(first_of_warp + i * 8 + lane_row(), length - 1);
            row_keys[i / 2][i % 2] = attention.dropout.row_key(segment.first + row);
        }
    }
    wait_for_copies<1>();
    __syncthreads();
    std::conditional_t<Tiles::kQueryInRegisters, RowsInRegisters<T, kD, kM>, RowsInShared<T, kD, kM>> left;
    left.take(query_tile + warp_of_block() * Tiles::kQueriesOfWarp * kTileStride<kD>);

    RowState<kM> rows;
    float sums[kM][kD / 8][4] = {};
#pragma unroll
    for (int i = 0; i < kM * 2; ++i) {
        rows.largest[i / 2][i % 2] = -INFINITY;
        rows.sum[i / 2][i % 2] = 0;
    }
    for (int first_key = 0; first_key < seen_by_block; first_key += kKeys) {
        const int stage = first_key / kKeys % 2;
        wait_for_copies<0>();
        __syncthreads();  // this stage is there, and everybody is done with the other one
        if (first_key + kKeys < seen_by_block) {
            T* const next = stages + (1 - stage) * 2 * Tiles::kTile;
            load_tile<kD, kKeys>(next, key, first_key + kKeys, in_vectors);
            load_tile<kD, kKeys>(next + Tiles::kTile, value, first_key + kKeys, in_vectors);
            close_copies();
        }
        if (first_key >= seen_by_warp) {
            continue;
        }
        const T* const key_tile = stages + stage * 2 * Tiles::kTile;
        float scores[kM][kN][4];
        dots_of<kD>(scores, left, key_tile);
        if (turned) {
#pragma unroll
            for (int i = 0; i < kM * kN * 4; ++i) {
                scores[i / 4 / kN][i / 4 % kN][i % 4] = -scores[i / 4 / kN][i / 4 % kN][i % 4];
            }
        }
        if (first_key + kKeys > seen_by_all) {
            hide_scores(scores, first_of_warp, first_key, length, causal);
        }
        take_exponentials(scores, rows, sums, scale);
        if constexpr (kDrops) {
            drop_some(scores, attention.dropout, row_keys, head, first_key);
        }
        add_mix<kD>(sums, scores, key_tile + Tiles::kTile);
    }
    store_rows<T>(args, segment, head, first_of_warp, rows, sums, scale);
}

template <class T, int kD, int kKeys>
bool launch_tiles(Context& context, const op::Attention& call, const AttentionForwardArgs& args) {
    using Tiles = ForwardTiles<kD, kKeys>;
    if (Tiles::kSharedBytes > context.shared_bytes) {
        return false;
    }
    const Shape shape{.blocks = blocks_of_heads(call.segments, call.shape.query_heads, Tiles::kQueries),
                      .threads = kAttentionThreads,
                      .shared_bytes = static_cast<uint32_t>(Tiles::kSharedBytes)};
    const bool drops = args.attention.dropout.rows != nullptr;
    context.tape.launch(drops ? attend<T, kD, kKeys, true> : attend<T, kD, kKeys, false>, shape, args);
    return true;
}

// False if there is no tile of that size on this GPU.
template <class T>
bool launch_on_tensor_cores(Context& context, const op::Attention& call, const AttentionForwardArgs& args) {
    return with_padded_size(call.shape.head_size, [&](auto size) {
        constexpr int kD = decltype(size)::value;
        if constexpr (kD <= 128) {
            if (launch_tiles<T, kD, 64>(context, call, args)) {
                return true;
            }
        }
        if constexpr (kD >= 128) {
            return launch_tiles<T, kD, 32>(context, call, args);
        }
        return false;
    });
}

}  // namespace

void own_attention(Context& context, const op::Attention& call, Scratch) {
    if (is_empty(call.segments)) {
        return;
    }
    const AttentionForwardArgs args = forward_args(call);
    const bool launched = call.query.dtype == DType::bf16   ? launch_on_tensor_cores<bf16>(context, call, args)
                          : call.query.dtype == DType::fp16 ? launch_on_tensor_cores<fp16>(context, call, args)
                                                            : false;
    if (!launched) {
        launch_simple_attention(context, call, args);
    }
}

}  // namespace accrue::cuda
