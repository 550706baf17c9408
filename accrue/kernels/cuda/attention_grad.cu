#include "accrue/kernels/cuda/attention.h"
#include "accrue/kernels/cuda/attention_simple.h"
#include "accrue/kernels/cuda/attention_tiles.cuh"

// Backward attention without a shared sum: one kernel whose blocks own keys and go through the queries that see them,
// in ascending order of heads and queries, and one whose blocks own queries and go through the keys. Both compute the
// scores again. With p = exp(scale score - log_sum) and f the factor of dropout,
//   d_value[j] = sum over i of p f d_output[i]
//   d_score = p (f d_output[i] . value[j] - delta[i]), delta = d_output . output
//   d_query[i] = scale * sum over j of d_score key[j], d_key[j] = scale * sum over i of d_score query[i]
// where p f and d_score are rounded before the sums, and scale comes last.
namespace accrue::cuda {
namespace {

constexpr float kLog2OfE = 1.44269504F;

// Eight lanes share a head of a row: lane i takes 8 columns from 8 i on, then 64 further, and so on.
constexpr int kLanesOfDelta = 8;
constexpr int kColumnsOfLane = 8;

struct DeltaArgs {
    Operand output;
    Operand d_output;
    float* delta = nullptr;  // [rows, heads]
    int64_t rows = 0;
    int64_t heads = 0;
    int64_t head_size = 0;
    int64_t in_vectors = 0;
};

// The same elements either way, those beyond the head left alone.
template <class T>
__device__ void read_columns(float (&values)[kColumnsOfLane], const T* from, int64_t count, bool in_vectors) {
    constexpr int kOfVector = 16 / sizeof(T);
    if (in_vectors) {
#pragma unroll
        for (int v = 0; v < kColumnsOfLane / kOfVector; ++v) {
            const uint4 vector = *reinterpret_cast<const uint4*>(from + v * kOfVector);
            T elements[kOfVector];
            memcpy(elements, &vector, sizeof(vector));
#pragma unroll
            for (int i = 0; i < kOfVector; ++i) {
                values[v * kOfVector + i] = to_float(elements[i]);
            }
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kColumnsOfLane; ++i) {
        values[i] = i < count ? to_float(from[i]) : 0;
    }
}

template <class T, class D>
__global__ void __launch_bounds__(kAttentionThreads) compute_delta(DeltaArgs args) {
    const int64_t place = (int64_t{blockIdx.x} * kAttentionThreads + threadIdx.x) / kLanesOfDelta;
    const int64_t row = place / args.heads;
    const int64_t head = place % args.heads;
    float sum = 0;
    if (row < args.rows) {
        const T* const output =
            static_cast<const T*>(args.output.data) + row * args.output.stride + head * args.head_size;
        const D* const d_output =
            static_cast<const D*>(args.d_output.data) + row * args.d_output.stride + head * args.head_size;
        for (int64_t c = threadIdx.x % kLanesOfDelta * kColumnsOfLane; c < args.head_size;
             c += kLanesOfDelta * kColumnsOfLane) {
            float x[kColumnsOfLane];
            float y[kColumnsOfLane];
            read_columns(x, output + c, args.head_size - c, args.in_vectors != 0);
            read_columns(y, d_output + c, args.head_size - c, args.in_vectors != 0);
#pragma unroll
            for (int i = 0; i < kColumnsOfLane; ++i) {
                sum = fmaf(x[i], y[i], sum);
            }
        }
    }
    for (int distance = kLanesOfDelta / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, distance);
    }
    if (row < args.rows && threadIdx.x % kLanesOfDelta == 0) {
        args.delta[place] = sum;
    }
}

void launch_delta(Context& context, const op::AttentionGrad& call, float* delta) {
    const int64_t head_size = call.shape.head_size;
    // Eight columns are whole vectors of every dtype.
    const bool in_vectors = head_size % kColumnsOfLane == 0 && can_be_read_in_vectors(call.output, head_size) &&
                            can_be_read_in_vectors(call.d_output, head_size);
    const DeltaArgs args{.output = operand_of(call.output),
                         .d_output = operand_of(call.d_output),
                         .delta = delta,
                         .rows = call.query.rows,
                         .heads = call.shape.query_heads,
                         .head_size = head_size,
                         .in_vectors = in_vectors ? 1 : 0};
    constexpr int64_t kOfBlock = kAttentionThreads / kLanesOfDelta;
    const Shape shape{.blocks = {static_cast<uint32_t>((args.rows * args.heads + kOfBlock - 1) / kOfBlock)},
                      .threads = kAttentionThreads};
    with_type(call.output.dtype, [&](auto output) {
        with_type(call.d_output.dtype, [&](auto d_output) {
            context.tape.launch(compute_delta<typename decltype(output)::type, typename decltype(d_output)::type>,
                                shape, args);
        });
    });
}

// What a lane knows of its own two queries, or finds of a tile's queries in shared memory.
struct QueryFacts {
    float power;  // log_sum as the power of two
    float delta;
    uint64_t row_key;
};

// One step's scores become probabilities, times the factors of dropout where they are to be multiplied with d_output;
// `gains`, d_output . value, become gradients of scores. Queries lie along the rows of pieces or along their columns.
template <bool kDrops>
__device__ inline void differentiate(float& score, float& gain, bool seen, const QueryFacts& query, float power_scale,
                                     const DropoutArgs& dropout, int64_t head, int key) {
    const float p = seen ? power_of_two(fmaf(score, power_scale, -query.power)) : 0.0F;
    if constexpr (kDrops) {
        const float factor = probability_factor(dropout, query.row_key, head, key);
        score = p * factor;
        gain = p * (gain * factor - query.delta);
    } else {
        score = p;
        gain = p * (gain - query.delta);
    }
}

// A warp has 16 keys of the 64 of its block, for whose gradients it holds the sums. Queries and their d_output come in
// tiles of kQueries, of which kStep at a time are worked on.
template <int kD, int kQueries_>
struct KeyTiles {
    static constexpr int kQueries = kQueries_;
    static constexpr int kKeys = 64;
    static constexpr int kKeysOfWarp = 16;
    static constexpr bool kKeysInRegisters = kD <= 64;
    static constexpr int kStep = kD <= 64 ? 32 : kQueries;
    static constexpr int kBlocksAtOnce = kD <= 64 ? 3 : kD <= 128 ? 2 : 1;
    static constexpr int kOwnTile = kKeys * kTileStride<kD>;
    static constexpr int kTile = kQueries * kTileStride<kD>;
    // Keys and values that stay in registers come in through the second stage.
    static constexpr int64_t kTileBytes =
        4 * tile_bytes<kD>(kQueries) + (kKeysInRegisters ? 0 : 2 * tile_bytes<kD>(kKeys));
    static constexpr int64_t kSharedBytes = kTileBytes + 2 * kQueries * (2 * sizeof(float) + sizeof(uint64_t));
    static_assert(!kKeysInRegisters || kKeys <= kQueries);
};

// What the lanes of a block need of each query of a tile.
template <int kQueries>
struct QueryColumns {
    uint64_t row_key[kQueries];
    float log_sum[kQueries];
    float delta[kQueries];
};

// Arrives with the tiles' copies. Queries that do not exist have zeroes: they have no d_output, so they change nothing.
template <int kQueries, bool kDrops>
__device__ void load_columns(QueryColumns<kQueries>& columns, const AttentionBackwardArgs& args, const Segment& segment,
                             int64_t head, int first_query) {
    static_assert(2 * kQueries <= kAttentionThreads);
    const int i = static_cast<int>(threadIdx.x) % kQueries;
    const int64_t row = segment.first + first_query + i;
    const bool exists = first_query + i < segment.length;
    if (threadIdx.x < kQueries) {
        copy_4_bytes(&columns.log_sum[i], args.log_sum + row * args.log_sum_stride + head, exists);
        if constexpr (kDrops) {
            columns.row_key[i] = exists ? args.attention.dropout.row_key(row) : 0;
        }
    } else if (threadIdx.x < 2 * kQueries) {
        copy_4_bytes(&columns.delta[i], args.delta + row * args.attention.query_heads + head, exists);
    }
}

// Which gradients a kernel computes: large heads have no room for the sums of both.
enum class Owned { key_and_value, key, value };

template <class T, int kD, int kQueries, bool kDrops, Owned kOwned>
__global__ void __launch_bounds__(kAttentionThreads, (KeyTiles<kD, kQueries>::kBlocksAtOnce))
    differentiate_keys(AttentionBackwardArgs args) {
    using Tiles = KeyTiles<kD, kQueries>;
    constexpr int kN = Tiles::kStep / 8;
    const AttentionArgs& attention = args.attention;
    const int64_t key_head = blockIdx.x % attention.key_heads;
    const Segment segment = attention.segments[blockIdx.x / attention.key_heads];
    const int length = static_cast<int>(segment.length);
    const int first = static_cast<int>(blockIdx.y) * Tiles::kKeys;
    if (first >= length) {
        return;
    }
    const bool causal = attention.causal != 0;
    const bool in_vectors = attention.in_vectors != 0;
    T* const stages = reinterpret_cast<T*>(dynamic_shared());
    T* const key_tile = stages + (Tiles::kKeysInRegisters ? 2 : 4) * Tiles::kTile;
    T* const value_tile = key_tile + Tiles::kOwnTile;
    auto* const columns = reinterpret_cast<QueryColumns<kQueries>*>(dynamic_shared() + Tiles::kTileBytes);

    const int first_query = causal ? first / kQueries * kQueries : 0;
    const int steps_of_head = (length - first_query + kQueries - 1) / kQueries;
    const int steps = static_cast<int>(attention.group) * steps_of_head;
    const auto load_stage = [&](int step) {
        const int64_t head = key_head * attention.group + step / steps_of_head;
        const int query = first_query + step % steps_of_head * kQueries;
        T* const stage = stages + step % 2 * 2 * Tiles::kTile;
        load_tile<kD, kQueries>(stage, head_rows<T>(attention.query, segment, head, attention.head_size), query,
                                in_vectors);
        load_tile<kD, kQueries>(stage + Tiles::kTile, head_rows<T>(args.d_output, segment, head, attention.head_size),
                                query, in_vectors);
        load_columns<kQueries, kDrops>(columns[step % 2], args, segment, head, query);
        close_copies();
    };
    load_tile<kD, Tiles::kKeys>(key_tile, head_rows<T>(attention.key, segment, key_head, attention.head_size), first,
                                in_vectors);
    load_tile<kD, Tiles::kKeys>(value_tile, head_rows<T>(attention.value, segment, key_head, attention.head_size),
                                first, in_vectors);
    close_copies();
    load_stage(0);
    wait_for_copies<1>();
    __syncthreads();
    using Rows = std::conditional_t<Tiles::kKeysInRegisters, RowsInRegisters<T, kD, 1>, RowsInShared<T, kD, 1>>;
    Rows keys;
    Rows values;
    const int first_of_warp = warp_of_block() * Tiles::kKeysOfWarp;
    keys.take(key_tile + first_of_warp * kTileStride<kD>);
    values.take(value_tile + first_of_warp * kTileStride<kD>);
    const int first_key = first + first_of_warp;

    constexpr bool kOwnsKey = kOwned != Owned::value;
    constexpr bool kOwnsValue = kOwned != Owned::key;
    float d_key[1][kOwnsKey ? kD / 8 : 1][4] = {};
    float d_value[1][kOwnsValue ? kD / 8 : 1][4] = {};
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<0>();
        __syncthreads();  // this stage is there, and everybody is done with the other one
        if (step + 1 < steps) {
            load_stage(step + 1);
        }
        const int64_t head = key_head * attention.group + step / steps_of_head;
        const int query_of_tile = first_query + step % steps_of_head * kQueries;
        const T* const query_tile = stages + step % 2 * 2 * Tiles::kTile;
        const QueryColumns<kQueries>& facts = columns[step % 2];
#pragma unroll 1
        for (int part = 0; part < kQueries; part += Tiles::kStep) {
            const int query = query_of_tile + part;
            if ((causal && query + Tiles::kStep <= first_key) || query >= length) {
                continue;  // none of them sees a key of this warp
            }
            const T* const queries = query_tile + part * kTileStride<kD>;
            const T* const d_outputs = queries + Tiles::kTile;
            float scores[1][kN][4];
            float gains[1][kN][4] = {};
            dots_of<kD>(scores, keys, queries);
            if constexpr (kOwnsKey) {
                dots_of<kD>(gains, values, d_outputs);
            }
            const bool some_hidden = causal && query < first_key + Tiles::kKeysOfWarp - 1;
#pragma unroll
            for (int n = 0; n < kN; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int column = n * 8 + lane_column() + i % 2;
                    const int key = first_key + lane_row() + i / 2 * 8;
                    const QueryFacts of_query{facts.log_sum[part + column] * kLog2OfE, facts.delta[part + column],
                                              kDrops ? facts.row_key[part + column] : 0};
                    differentiate<kDrops>(scores[0][n][i], gains[0][n][i], !some_hidden || key <= query + column,
                                          of_query, attention.power_scale, attention.dropout, head, key);
                }
            }
            if constexpr (kOwnsValue) {
                add_mix<kD>(d_value, scores, d_outputs);
            }
            if constexpr (kOwnsKey) {
                add_mix<kD>(d_key, gains, queries);
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int key = first_key + half * 8 + lane_row();
        if (key >= length) {
            continue;
        }
        if constexpr (kOwnsKey) {
            store_row<T>(args.d_key, segment.first + key, key_head, attention.head_size, d_key[0], half,
                         attention.scale);
        }
        if constexpr (kOwnsValue) {
            store_row<T>(args.d_value, segment.first + key, key_head, attention.head_size, d_value[0], half, 1.0F);
        }
    }
}

// A warp has 16 queries of the 64 of its block; keys and values come in tiles of kKeys, of which kStep at a time are
// worked on.
template <int kD, int kKeys_>
struct QueryTiles {
    static constexpr int kKeys = kKeys_;
    static constexpr int kQueries = 64;
    static constexpr int kQueriesOfWarp = 16;
    static constexpr bool kQueriesInRegisters = kD <= 128 && kQueries <= kKeys;
    static constexpr int kStep = 32;
    static constexpr int kBlocksAtOnce = kD <= 64 ? 3 : kD <= 128 ? 2 : 1;
    static constexpr int kOwnTile = kQueries * kTileStride<kD>;
    static constexpr int kTile = kKeys * kTileStride<kD>;
    static constexpr int64_t kSharedBytes =
        4 * tile_bytes<kD>(kKeys) + (kQueriesInRegisters ? 0 : 2 * tile_bytes<kD>(kQueries));
};

template <class T, int kD, int kKeys, bool kDrops>
__global__ void __launch_bounds__(kAttentionThreads, (QueryTiles<kD, kKeys>::kBlocksAtOnce))
    differentiate_queries(AttentionBackwardArgs args) {
    using Tiles = QueryTiles<kD, kKeys>;
    constexpr int kN = Tiles::kStep / 8;
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
    const HeadRows<T> key = head_rows<T>(attention.key, segment, head / attention.group, attention.head_size);
    const HeadRows<T> value = head_rows<T>(attention.value, segment, head / attention.group, attention.head_size);
    T* const stages = reinterpret_cast<T*>(dynamic_shared());
    T* const query_tile = stages + (Tiles::kQueriesInRegisters ? 2 : 4) * Tiles::kTile;
    T* const d_output_tile = query_tile + Tiles::kOwnTile;
    load_tile<kD, Tiles::kQueries>(query_tile, head_rows<T>(attention.query, segment, head, attention.head_size), first,
                                   in_vectors);
    load_tile<kD, Tiles::kQueries>(d_output_tile, head_rows<T>(args.d_output, segment, head, attention.head_size),
                                   first, in_vectors);
    close_copies();
    load_tile<kD, kKeys>(stages, key, 0, in_vectors);
    load_tile<kD, kKeys>(stages + Tiles::kTile, value, 0, in_vectors);
    close_copies();

    const int first_of_warp = first + warp_of_block() * Tiles::kQueriesOfWarp;
    QueryFacts facts[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = first_of_warp + half * 8 + lane_row();
        if (query < length) {
            const int64_t row = segment.first + query;
            facts[half].power = args.log_sum[row * args.log_sum_stride + head] * kLog2OfE;
            facts[half].delta = args.delta[row * attention.query_heads + head];
            facts[half].row_key = kDrops ? attention.dropout.row_key(row) : 0;
        }
    }
    wait_for_copies<1>();
    __syncthreads();
    using Rows = std::conditional_t<Tiles::kQueriesInRegisters, RowsInRegisters<T, kD, 1>, RowsInShared<T, kD, 1>>;
    Rows queries;
    Rows d_outputs;
    queries.take(query_tile + warp_of_block() * Tiles::kQueriesOfWarp * kTileStride<kD>);
    d_outputs.take(d_output_tile + warp_of_block() * Tiles::kQueriesOfWarp * kTileStride<kD>);

    const int seen_by_block = causal ? min(first + Tiles::kQueries, length) : length;
    const int seen_by_warp = first_of_warp >= length ? 0
                             : causal                ? min(first_of_warp + Tiles::kQueriesOfWarp, length)
                                                     : length;
    const int seen_by_all = causal ? min(first_of_warp + 1, length) : length;
    float d_query[1][kD / 8][4] = {};
    for (int key_of_tile = 0; key_of_tile < seen_by_block; key_of_tile += kKeys) {
        const int stage = key_of_tile / kKeys % 2;
        wait_for_copies<0>();
        __syncthreads();  // this stage is there, and everybody is done with the other one
        if (key_of_tile + kKeys < seen_by_block) {
            T* const next = stages + (1 - stage) * 2 * Tiles::kTile;
            load_tile<kD, kKeys>(next, key, key_of_tile + kKeys, in_vectors);
            load_tile<kD, kKeys>(next + Tiles::kTile, value, key_of_tile + kKeys, in_vectors);
            close_copies();
        }
#pragma unroll 1
        for (int part = 0; part < kKeys && key_of_tile + part < seen_by_warp; part += Tiles::kStep) {
            const T* const keys = stages + stage * 2 * Tiles::kTile + part * kTileStride<kD>;
            const T* const values = keys + Tiles::kTile;
            float scores[1][kN][4];
            float gains[1][kN][4];
            dots_of<kD>(scores, queries, keys);
            dots_of<kD>(gains, d_outputs, values);
            const int first_key = key_of_tile + part;
            const bool some_hidden = first_key + Tiles::kStep > seen_by_all;
#pragma unroll
            for (int n = 0; n < kN; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int column = first_key + n * 8 + lane_column() + i % 2;
                    const int query = first_of_warp + lane_row() + i / 2 * 8;
                    const bool seen = !some_hidden || column < (causal ? query + 1 : length);
                    differentiate<kDrops>(scores[0][n][i], gains[0][n][i], seen, facts[i / 2], attention.power_scale,
                                          attention.dropout, head, column);
                }
            }
            add_mix<kD>(d_query, gains, keys);
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = first_of_warp + half * 8 + lane_row();
        if (query < length) {
            store_row<T>(args.d_query, segment.first + query, head, attention.head_size, d_query[0], half,
                         attention.scale);
        }
    }
}

template <class T, int kD, int kTileRows, Owned kOwned>
void launch_keys(Context& context, const op::AttentionGrad& call, const AttentionBackwardArgs& args) {
    using Tiles = KeyTiles<kD, kTileRows>;
    const Shape shape{.blocks = blocks_of_heads(call.segments, call.shape.key_heads, Tiles::kKeys),
                      .threads = kAttentionThreads,
                      .shared_bytes = static_cast<uint32_t>(Tiles::kSharedBytes)};
    const bool drops = args.attention.dropout.rows != nullptr;
    context.tape.launch(drops ? differentiate_keys<T, kD, kTileRows, true, kOwned>
                              : differentiate_keys<T, kD, kTileRows, false, kOwned>,
                        shape, args);
}

template <class T, int kD, int kTileRows>
void launch_queries(Context& context, const op::AttentionGrad& call, const AttentionBackwardArgs& args) {
    using Tiles = QueryTiles<kD, kTileRows>;
    const Shape shape{.blocks = blocks_of_heads(call.segments, call.shape.query_heads, Tiles::kQueries),
                      .threads = kAttentionThreads,
                      .shared_bytes = static_cast<uint32_t>(Tiles::kSharedBytes)};
    const bool drops = args.attention.dropout.rows != nullptr;
    context.tape.launch(
        drops ? differentiate_queries<T, kD, kTileRows, true> : differentiate_queries<T, kD, kTileRows, false>, shape,
        args);
}

template <class T, int kD, int kTileRows>
bool launch_tiles(Context& context, const op::AttentionGrad& call, const AttentionBackwardArgs& args) {
    if (std::max(KeyTiles<kD, kTileRows>::kSharedBytes, QueryTiles<kD, kTileRows>::kSharedBytes) >
        context.shared_bytes) {
        return false;
    }
    if constexpr (kD <= 128) {
        launch_keys<T, kD, kTileRows, Owned::key_and_value>(context, call, args);
    } else {
        launch_keys<T, kD, kTileRows, Owned::value>(context, call, args);
        launch_keys<T, kD, kTileRows, Owned::key>(context, call, args);
    }
    launch_queries<T, kD, kTileRows>(context, call, args);
    return true;
}

// False if there is no tile of that size on this GPU.
template <class T>
bool launch_on_tensor_cores(Context& context, const op::AttentionGrad& call, const AttentionBackwardArgs& args) {
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

void own_attention_grad(Context& context, const op::AttentionGrad& call, Scratch scratch) {
    if (is_empty(call.segments)) {
        return;
    }
    float* const delta = take_delta(scratch, call);
    const AttentionBackwardArgs args = backward_args(call, delta);
    launch_delta(context, call, delta);
    const bool launched = call.query.dtype == DType::bf16   ? launch_on_tensor_cores<bf16>(context, call, args)
                          : call.query.dtype == DType::fp16 ? launch_on_tensor_cores<fp16>(context, call, args)
                                                            : false;
    if (!launched) {
        launch_simple_attention_grad(context, call, args);
    }
}

}  // namespace accrue::cuda
