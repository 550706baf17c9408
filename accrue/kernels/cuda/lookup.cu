#include <type_traits>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/four.cuh"
#include "accrue/kernels/cuda/sum_element.cuh"
#include "accrue/kernels/cuda/sums_plan.h"

// Rows of tables: looked up, and their gradients.
namespace accrue::cuda {
namespace {

constexpr uint32_t kMostThreads = 256;

struct EmbedArgs {
    const int32_t* tokens = nullptr;
    const float* table = nullptr;
    int64_t table_stride = 0;
    const int32_t* positions = nullptr;
    const float* position_table = nullptr;  // nothing: adds nothing
    int64_t position_stride = 0;
    DropoutArgs dropout;
    float* output = nullptr;
    int64_t output_stride = 0;
    int64_t columns = 0;
    int64_t pieces = 0;      // of a row
    int64_t is_aligned = 0;  // every row of everything
};

__global__ void __launch_bounds__(kMostThreads) embed_kernel(EmbedArgs args) {
    const auto pieces = static_cast<uint32_t>(args.pieces);
    const int64_t row = blockIdx.x / pieces;
    const int64_t column = (static_cast<int64_t>(blockIdx.x % pieces) * blockDim.x + threadIdx.x) * 4;
    const int64_t left = args.columns - column;
    const bool is_aligned = args.is_aligned != 0;
    if (left <= 0) {
        return;
    }
    const float* word = args.table + args.tokens[row] * args.table_stride + column;
    Four<float> x = load_four<Reuse::soon>(word, left, is_aligned);
    if (args.position_table != nullptr) {
        const float* position = args.position_table + args.positions[row] * args.position_stride + column;
        const Four<float> y = load_four<Reuse::soon>(position, left, is_aligned);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            x.at[e] += y.at[e];
        }
    }
    if (args.dropout.rows != nullptr) {
        const uint64_t key = args.dropout.row_key(row);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float factor = args.dropout.factor(key, static_cast<uint64_t>(column + e));
            x.at[e] = factor == 0 ? 0 : x.at[e] * factor;
        }
    }
    store_four<Reuse::soon>(args.output + row * args.output_stride + column, x, left, is_aligned);
}

// A grain whose rows' gradients are added to a table's. All of it may differ from one micro-batch to the next.
struct LookupTable {
    const int32_t* entries = nullptr;
    const int32_t* first_place = nullptr;
    const int32_t* places = nullptr;
    const int32_t* slot_of_row = nullptr;  // nothing: nothing is held
    const float* held = nullptr;
    int64_t held_stride = 0;
    int64_t first_row = 0;
    int64_t count = 0;  // entries that there are
    int64_t first_statistics = 0;
    void* sum = nullptr;  // nothing: a probe
    GrainRule rule;
};
struct LookupArgs {
    const LookupTable* grains = nullptr;
    const float* d_output = nullptr;
    int64_t stride = 0;
    int64_t columns = 0;
    int64_t is_aligned = 0;  // rows of d_output and of what is held
    int64_t is_shared = 0;   // several grains of the launch may have an entry
    TileStatistics* statistics = nullptr;
};

// Four columns of an entry's gradient: what is held for it, then the rows of its places in their order. `whole`: aligned and
// all four are there.
template <bool whole>
__device__ Four<float> entry_gradient(const LookupArgs& args, const LookupTable& grain, int64_t entry, int64_t column) {
    const int64_t left = args.columns - column;
    Four<float> total{};
    const int32_t slot = grain.slot_of_row == nullptr ? -1 : grain.slot_of_row[grain.entries[entry]];
    if (slot >= 0) {
        total = load_four<Reuse::none>(grain.held + slot * grain.held_stride + column, whole ? 4 : left, whole);
    }
    const float* rows = args.d_output + grain.first_row * args.stride + column;
    const int32_t end = grain.first_place[entry + 1];
#pragma unroll 8
    for (int32_t p = grain.first_place[entry]; p < end; ++p) {
        const Four<float> row = load_four<Reuse::soon>(rows + grain.places[p] * args.stride, whole ? 4 : left, whole);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            total.at[e] += row.at[e];
        }
    }
    return total;
}

// Exact sums are added by integer atomics where several grains may have the entry; all others are one block's alone.
template <class Sum>
__device__ void add_element(typename Sum::Element* sums, int64_t place, float x, const GrainRule& rule,
                            bool is_shared) {
    if constexpr (std::is_same_v<Sum, ExactSum>) {
        if (is_shared) {
            static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
            atomicAdd(reinterpret_cast<unsigned long long*>(sums + place), ExactSum::units(x, rule));
            return;
        }
    }
    sums[place] = Sum::added(sums[place], x, rule, place);
}

// A block for each entry that there can be (x) of each grain (y).
template <class Sum>
__global__ void __launch_bounds__(kMostThreads) lookup_kernel(LookupArgs args) {
    const LookupTable& grain = args.grains[blockIdx.y];
    const int64_t entry = blockIdx.x;
    if (entry >= grain.count) {
        return;
    }
    const GrainRule rule = grain.rule;
    auto* sums = static_cast<typename Sum::Element*>(grain.sum);
    const int64_t first = grain.entries[entry] * args.columns;
    TileStatistics statistics{};
    for (int64_t column = threadIdx.x * 4; column < args.columns; column += blockDim.x * 4) {
        const int64_t left = args.columns - column;
        const Four<float> total = args.is_aligned != 0 && left >= 4 ? entry_gradient<true>(args, grain, entry, column)
                                                                    : entry_gradient<false>(args, grain, entry, column);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float x = noted(total.at[e], rule.unscale, statistics);
            if (sums != nullptr && e < left) {
                add_element<Sum>(sums, first + column + e, x, rule, args.is_shared != 0);
            }
        }
    }
    const TileStatistics all = block_statistics(statistics);
    if (threadIdx.x == 0) {
        args.statistics[grain.first_statistics + entry] = all;
    }
}

// What is added in one launch.
struct LookupLaunch {
    const LookupTable* grains = nullptr;
    int64_t count = 0;
    int64_t most_entries = 0;
    SumKind kind = SumKind::exact;
};

// The grains that are added to something, with their statistics one behind another if they are `all_at_once`.
struct LookupTables {
    std::vector<LookupTable> grains;
    std::vector<RecordPart> parts;
    std::vector<int64_t> most_entries;
};

LookupTables tables_of(const op::AddLookupGrad& call, bool all_at_once) {
    LookupTables tables;
    int64_t first = 0;
    for (const op::LookupGrain& grain : call.grains) {
        const int64_t count = grain.index.entries.columns;
        if (!grain.d_table.is_wanted()) {
            continue;
        }
        tables.grains.push_back({.entries = grain.index.entries.data,
                                 .first_place = grain.index.first_place.data,
                                 .places = grain.index.places.data,
                                 .slot_of_row = grain.held.slot_of_row.data,
                                 .held = grain.held.values.data,
                                 .held_stride = grain.held.values.stride,
                                 .first_row = grain.rows.first,
                                 .count = count,
                                 .first_statistics = first,
                                 .sum = grain.d_table.data,
                                 .rule = rule_of(grain.d_table)});
        tables.parts.push_back({.record = grain.d_table.record, .first = first, .count = count});
        tables.most_entries.push_back(most_entries(call, grain));
        first += all_at_once ? most_entries(call, grain) : 0;
    }
    return tables;
}

// Grains are added in one launch where their order does not matter; but not to sums on the host, on which atomic
// operations would go over the bus, where not every machine has them: grain by grain each entry is one block's.
bool adds_all_at_once(const Context& context, const op::AddLookupGrad& call) {
    return is_exact(call) && std::none_of(call.grains.begin(), call.grains.end(), [&](const op::LookupGrain& grain) {
               return context.arena.is_on_host(grain.d_table.data);
           });
}

bool rows_are_aligned(const op::AddLookupGrad& call) {
    return fits_four(call.d_output.data, call.d_output.stride) &&
           std::all_of(call.grains.begin(), call.grains.end(), [](const op::LookupGrain& grain) {
               return fits_four(grain.held.values.data, grain.held.values.stride);
           });
}

void launch_lookup(Context& context, const LookupLaunch& launch, LookupArgs args) {
    if (launch.most_entries == 0) {
        return;
    }
    args.grains = launch.grains;
    const Shape shape{.blocks = dim3(static_cast<uint32_t>(launch.most_entries), static_cast<uint32_t>(launch.count)),
                      .threads = row_pieces(args.columns).threads};
    with_sum(launch.kind,
             [&](auto tag) { context.tape.launch(lookup_kernel<typename decltype(tag)::type>, shape, args); });
}

}  // namespace

void lower(Context& context, const op::Embed& call, Scratch /*scratch*/) {
    const auto [threads, pieces] = row_pieces(call.output.columns);
    if (call.output.elements() == 0) {
        return;
    }
    const bool is_aligned = fits_four(call.table.data, call.table.stride) &&
                            fits_four(call.position_table.data, call.position_table.stride) &&
                            fits_four(call.output.data, call.output.stride);
    const EmbedArgs args{.tokens = call.tokens.data,
                         .table = call.table.data,
                         .table_stride = call.table.stride,
                         .positions = call.positions.data,
                         .position_table = call.position_table.data,
                         .position_stride = call.position_table.stride,
                         .dropout = args_of(call.dropout),
                         .output = call.output.data,
                         .output_stride = call.output.stride,
                         .columns = call.output.columns,
                         .pieces = pieces,
                         .is_aligned = is_aligned ? 1 : 0};
    context.tape.launch(embed_kernel,
                        {.blocks = dim3(static_cast<uint32_t>(call.output.rows * pieces)), .threads = threads}, args);
}

void lower(Context& context, const op::AddLookupGrad& call, Scratch scratch) {
    TileStatistics* statistics = lookup_statistics(scratch, call);
    const bool all_at_once = adds_all_at_once(context, call);
    const auto [grains, parts, most] = tables_of(call, all_at_once);
    if (grains.empty() || call.d_output.columns == 0) {
        return;
    }
    const LookupTable* tables = context.tape.constant(std::span<const LookupTable>(grains));
    const LookupArgs args{.d_output = call.d_output.data,
                          .stride = call.d_output.stride,
                          .columns = call.d_output.columns,
                          .is_aligned = rows_are_aligned(call) ? 1 : 0,
                          .is_shared = all_at_once ? 1 : 0,
                          .statistics = statistics};
    if (all_at_once) {
        const LookupLaunch launch{
            .grains = tables, .count = std::ssize(grains), .most_entries = *std::max_element(most.begin(), most.end())};
        launch_lookup(context, launch, args);
        add_to_records(context, parts, statistics);
        return;
    }
    // Grain by grain.
    size_t place = 0;
    for (const op::LookupGrain& grain : call.grains) {
        if (grain.d_table.is_wanted()) {
            const LookupLaunch launch{
                .grains = tables + place, .count = 1, .most_entries = most[place], .kind = grain.d_table.kind};
            launch_lookup(context, launch, args);
            add_to_records(context, std::span(parts).subspan(place, 1), statistics);
            ++place;
        }
    }
}

}  // namespace accrue::cuda
