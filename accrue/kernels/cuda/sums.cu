#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/four.cuh"
#include "accrue/kernels/cuda/sum_element.cuh"
#include "accrue/kernels/cuda/sums_plan.h"

// Gradients of grains become part of their sums and records. Gradients that are added at once and those that waited take the
// same way, tile by tile and in the same order, so that waiting changes no bit.
namespace accrue::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kFours = kAddTile / (4 * kThreads);  // that a thread has of each tile
constexpr int kFoursApart = 4 * kThreads;          // so that neighbouring threads have neighbouring elements
constexpr int kGrainsAhead = 2;                    // whose values are on their way
constexpr int kGrainsTogether = 8;                 // whose statistics a block puts together at a time
constexpr int64_t kSumsThreads = kFoursThreads;

// A tensor's sum and the grains that are added to it, in their order.
struct AddTensor {
    void* sum = nullptr;  // nothing: a probe
    int64_t elements = 0;
    int64_t first_grain = 0;
    int64_t grains = 0;
    int64_t is_aligned = 0;  // the sum and all gradients
};
struct AddGrain {
    const float* values = nullptr;
    int64_t first_statistics = 0;
    GrainRule rule;
};
struct AddArgs {
    const int64_t* first_tiles = nullptr;  // of each tensor, and the end
    int64_t tensor_count = 0;
    const AddTensor* tensors = nullptr;
    const AddGrain* grains = nullptr;
    TileStatistics* statistics = nullptr;
};

// What a thread has of a tile: `kFours` times four elements, from first_place() on.
template <class T>
struct TilePart {
    Four<T> fours[kFours];
};

__device__ int first_place() {
    return static_cast<int>(threadIdx.x) * 4;
}

// `tile`: where it begins, with `elements` of them.
template <bool whole, class T>
__device__ TilePart<T> load_part(const T* tile, int elements) {
    TilePart<T> part;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
        const int place = first_place() + j * kFoursApart;
        part.fours[j] = load_four<Reuse::none>(tile + place, whole ? 4 : elements - place, whole);
    }
    return part;
}

template <bool whole, class T>
__device__ void store_part(T* tile, int elements, const TilePart<T>& part) {
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
        const int place = first_place() + j * kFoursApart;
        store_four<Reuse::none>(tile + place, part.fours[j], whole ? 4 : elements - place, whole);
    }
}

// Adds a grain's values to sums and notes them, always in the order of their places.
template <class Sum>
__device__ TileStatistics add_part(TilePart<typename Sum::Element>& sums, const TilePart<float>& values,
                                   int64_t tile_place, const GrainRule& rule) {
    TileStatistics statistics{};
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float x = noted(values.fours[j].at[e], rule.unscale, statistics);
            auto& sum = sums.fours[j].at[e];
            sum = Sum::added(sum, x, rule, tile_place + first_place() + j * kFoursApart + e);
        }
    }
    return statistics;
}

using WarpStatistics = TileStatistics[kGrainsTogether][kWarps];

// Writes what the warps have noted of some grains: warps in their order.
__device__ void write_statistics(const WarpStatistics& warps, int count, const AddGrain* grains, TileStatistics* to) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < count) {
        TileStatistics all = warps[threadIdx.x][0];
        for (int w = 1; w < kWarps; ++w) {
            join(all, warps[threadIdx.x][w]);
        }
        to[grains[threadIdx.x].first_statistics] = all;
    }
    __syncthreads();
}

// One tile: its sums are read once, all grains are added, and they are written once. `whole`: all of it is there and aligned.
// The values of some grains are on their way while one is added. `statistics`: of this tile, where a grain's begin at 0.
template <class Sum, bool whole>
__device__ void add_tile(const AddTensor& tensor, const AddGrain* grains, int64_t tile, TileStatistics* statistics,
                         WarpStatistics& warps) {
    using Element = typename Sum::Element;
    const int64_t place = tile * kAddTile;
    Element* memory = tensor.sum == nullptr ? nullptr : static_cast<Element*>(tensor.sum) + place;
    const auto elements = static_cast<int>(min(kAddTile, tensor.elements - place));
    const auto count = static_cast<int>(tensor.grains);
    const auto values_of = [&](int grain) { return load_part<whole>(grains[grain].values + place, elements); };
    TilePart<float> values[kGrainsAhead];
#pragma unroll
    for (int k = 0; k < kGrainsAhead; ++k) {
        if (k < count) {
            values[k] = values_of(k);
        }
    }
    TilePart<Element> sums{};
    if (memory != nullptr) {
        sums = load_part<whole>(static_cast<const Element*>(memory), elements);
    }
    const auto add_grain = [&](int g, TilePart<float>& here) {
        const GrainRule rule = grains[g].rule;
        const TileStatistics warp = warp_statistics(add_part<Sum>(sums, here, place, rule));
        if (g + kGrainsAhead < count) {
            here = values_of(g + kGrainsAhead);
        }
        const int together = g % kGrainsTogether;
        if (threadIdx.x % 32 == 0) {
            warps[together][threadIdx.x / 32] = warp;
        }
        if (g + 1 == count || together + 1 == kGrainsTogether) {
            write_statistics(warps, together + 1, grains + g - together, statistics);
        }
    };
#pragma unroll 1
    for (int g = 0; g < count; g += kGrainsAhead) {
#pragma unroll
        for (int k = 0; k < kGrainsAhead; ++k) {
            if (g + k < count) {
                add_grain(g + k, values[k]);
            }
        }
    }
    if (memory != nullptr) {
        store_part<whole>(memory, elements, sums);
    }
}

template <class Sum>
__global__ void __launch_bounds__(kThreads, 2) add_kernel(AddArgs args) {
    __shared__ WarpStatistics warps;
    const int64_t block = blockIdx.x;
    const int64_t found = part_of_block(args.first_tiles, args.tensor_count, block);
    const AddTensor tensor = args.tensors[found];
    const AddGrain* grains = args.grains + tensor.first_grain;
    const int64_t tile = block - args.first_tiles[found];
    if (tensor.is_aligned != 0 && (tile + 1) * kAddTile <= tensor.elements) {
        add_tile<Sum, true>(tensor, grains, tile, args.statistics + tile, warps);
    } else {
        add_tile<Sum, false>(tensor, grains, tile, args.statistics + tile, warps);
    }
}

struct AddSumsArgs {
    const uint64_t* others = nullptr;
    uint64_t* sums = nullptr;
    int64_t elements = 0;
    int64_t is_aligned = 0;
};

__global__ void __launch_bounds__(kSumsThreads) add_sums_kernel(AddSumsArgs args) {
    const int64_t first = (blockIdx.x * kSumsThreads + threadIdx.x) * 4;
    const int64_t left = args.elements - first;
    const bool is_aligned = args.is_aligned != 0;
    const Four<uint64_t> others = load_four<Reuse::none>(args.others + first, left, is_aligned);
    Four<uint64_t> sums = load_four<Reuse::none>(static_cast<const uint64_t*>(args.sums) + first, left, is_aligned);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        sums.at[e] += others.at[e];
    }
    store_four<Reuse::none>(args.sums + first, sums, left, is_aligned);
}

// What a launch adds: gradients whose sums are of one kind, those of one tensor beside each other.
class AddTables {
public:
    void add(const GrainGradient& gradient, int64_t first_statistics) {
        if (tensors_.empty() || !is_of(gradient, sum_)) {
            begin_tensor(gradient.sum);
        }
        AddTensor& tensor = tensors_.back();
        ++tensor.grains;
        tensor.is_aligned = tensor.is_aligned != 0 && fits_four(gradient.values) ? 1 : 0;
        grains_.push_back({gradient.values, first_statistics, rule_of(gradient.sum)});
    }

    void launch(Context& context, TileStatistics* statistics) const {
        const AddArgs args{.first_tiles = context.tape.constant(std::span<const int64_t>(first_tiles_)),
                           .tensor_count = std::ssize(tensors_),
                           .tensors = context.tape.constant(std::span<const AddTensor>(tensors_)),
                           .grains = context.tape.constant(std::span<const AddGrain>(grains_)),
                           .statistics = statistics};
        with_sum(sum_.kind, [&](auto tag) {
            context.tape.launch(add_kernel<typename decltype(tag)::type>,
                                {.blocks = dim3(static_cast<uint32_t>(first_tiles_.back())), .threads = kThreads},
                                args);
        });
    }

private:
    // Probes have no sum that could be read once for all grains.
    static bool is_of(const GrainGradient& gradient, const SumView& sum) {
        return sum.data != nullptr && gradient.sum.data == sum.data && gradient.sum.elements() == sum.elements();
    }

    void begin_tensor(const SumView& sum) {
        sum_ = sum;
        tensors_.push_back({.sum = sum.data,
                            .elements = sum.elements(),
                            .first_grain = std::ssize(grains_),
                            .grains = 0,
                            .is_aligned = reinterpret_cast<uintptr_t>(sum.data) % 16 == 0 ? 1 : 0});
        first_tiles_.push_back(first_tiles_.back() + add_tiles(sum.elements()));
    }

    SumView sum_;  // of the last tensor
    std::vector<int64_t> first_tiles_{0};
    std::vector<AddTensor> tensors_;
    std::vector<AddGrain> grains_;
};

// Those of one kind and tensor beside each other, and otherwise in the order in which they came.
void sort_by_sum(std::vector<GrainGradient>& gradients) {
    std::stable_sort(gradients.begin(), gradients.end(), [](const GrainGradient& a, const GrainGradient& b) {
        return std::tuple(a.sum.kind, reinterpret_cast<uintptr_t>(a.sum.data)) <
               std::tuple(b.sum.kind, reinterpret_cast<uintptr_t>(b.sum.data));
    });
}

// One launch for each kind of sum (there is one kind in a run). Their records come later, together with others'.
void add_all(Context& context, std::vector<GrainGradient> gradients, Scratch& scratch) {
    std::erase_if(gradients, [](const GrainGradient& gradient) {
        return !gradient.sum.is_wanted() || gradient.sum.elements() == 0;
    });
    sort_by_sum(gradients);
    std::vector<RecordPart> parts;
    int64_t tiles = 0;
    for (const auto& [values, sum] : gradients) {
        parts.push_back({.record = sum.record, .first = tiles, .count = add_tiles(sum.elements())});
        tiles += add_tiles(sum.elements());
    }
    TileStatistics* const pending = context.records.room(context, parts, tiles);
    TileStatistics* const statistics = pending != nullptr ? pending : scratch.take<TileStatistics>(tiles);
    for (size_t first = 0; first < gradients.size();) {
        AddTables tables;
        size_t end = first;
        for (; end < gradients.size() && gradients[end].sum.kind == gradients[first].sum.kind; ++end) {
            tables.add(gradients[end], parts[end].first);
        }
        tables.launch(context, statistics);
        first = end;
    }
    if (pending == nullptr) {
        add_to_records(context, parts, statistics);
    }
}

}  // namespace

void add_gradients(Context& context, std::span<const GrainGradient> gradients, Scratch& scratch) {
    std::vector<GrainGradient> at_once;
    for (const GrainGradient& gradient : gradients) {
        const bool may_wait = gradient.sum.waiting != nullptr && gradient.values == gradient.sum.waiting;
        (may_wait ? context.waiting : at_once).push_back(gradient);
    }
    add_all(context, std::move(at_once), scratch);
}

void lower(Context& context, const op::AddGradient& call, Scratch scratch) {
    const GrainGradient gradient{.values = call.values.data, .sum = call.sum};
    add_gradients(context, std::span(&gradient, 1), scratch);
}

void lower(Context& context, const op::CompleteSums& call, Scratch scratch) {
    const auto waits_here = [&call](const GrainGradient& gradient) {
        const auto* const place = reinterpret_cast<const std::byte*>(gradient.values);
        return std::less_equal<>()(call.waiting.data(), place) &&
               std::less<>()(place, call.waiting.data() + call.waiting.size());
    };
    const auto elsewhere = std::stable_partition(context.waiting.begin(), context.waiting.end(), waits_here);
    std::vector<GrainGradient> here(context.waiting.begin(), elsewhere);
    context.waiting.erase(context.waiting.begin(), elsewhere);
    add_all(context, std::move(here), scratch);
}

void lower(Context& context, const op::AddSums& call, Scratch /*scratch*/) {
    const int64_t elements = call.sums.columns;
    if (elements == 0) {
        return;
    }
    const AddSumsArgs args{.others = reinterpret_cast<const uint64_t*>(call.others.data),
                           .sums = reinterpret_cast<uint64_t*>(call.sums.data),
                           .elements = elements,
                           .is_aligned = fits_four(call.others.data) && fits_four(call.sums.data) ? 1 : 0};
    context.tape.launch(add_sums_kernel, {.blocks = blocks_of_fours(elements), .threads = kSumsThreads}, args);
}

}  // namespace accrue::cuda
