// What attention and its gradient share, for inclusion in each target's pass over a source file.

#if defined(ACCRUE_KERNELS_CPU_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCRUE_KERNELS_CPU_ATTENTION_INL_H
#undef ACCRUE_KERNELS_CPU_ATTENTION_INL_H
#else
#define ACCRUE_KERNELS_CPU_ATTENTION_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "accrue/kernels/cpu/dropout-inl.h"
#include "accrue/kernels/cpu/elementwise_plan.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/product-inl.h"
#include "accrue/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Hands out consecutive parts of a thread's scratch memory; each stays aligned to a vector.
class Scratch {
public:
    explicit Scratch(float* memory) : next_(memory) {}
    float* floats(int64_t count) {
        float* part = next_;
        next_ += count;
        return part;
    }
    uint32_t* words(int64_t count) { return reinterpret_cast<uint32_t*>(floats(count)); }

private:
    float* next_;
};

// Neighbouring queries of a segment: as many as a tile has columns, or what is left.
struct QueryBlock {
    int64_t first = 0;  // in the segment
    int64_t count = 0;
    int64_t width = 0;  // lanes: count, rounded up to whole vectors
    int64_t keys = 0;   // those that the last query sees

    QueryBlock(int64_t first_query, int64_t length)
        : first(first_query),
          count(std::min(kTileColumns, length - first_query)),
          width(panel_width(0, count)),
          keys(first_query + count) {}
};

// One head's columns of the rows of a segment, as a side of a product: rows are lanes (Contiguous::depth) or the depth.
HWY_INLINE Operand operand_of(AnyConstView matrix, const Segment& segment, int64_t head, int64_t head_size,
                              Contiguous contiguous) {
    const AnyConstView part =
        matrix.slice_rows(segment.first, segment.length).slice_columns(head * head_size, head_size);
    return {.data = part.data, .dtype = part.dtype, .stride = part.stride, .contiguous = contiguous};
}

// The lanes from `first` on of an operand whose depth is contiguous, as what will be read soon.
HWY_INLINE SoonRows soon_rows_of(const Operand& operand, int64_t first, int64_t count, int64_t depth) {
    const int64_t bytes = bytes_of(operand.dtype);
    const SoonRows all{reinterpret_cast<uintptr_t>(operand.data), operand.stride * bytes, depth * bytes, count};
    return all.from(first, count);
}

// Pairs only where all of these are bf16: a product has one packing.
inline Packing packing_of(std::initializer_list<AnyConstView> factors, InstructionSet set) {
    const bool all_bf16 =
        std::ranges::all_of(factors, [](const AnyConstView& view) { return view.dtype == DType::bf16; });
    return cpu::packing_of(all_bf16 ? DType::bf16 : DType::fp32, set);
}

// Which of the queries from `query` on see this key.
HWY_INLINE hn::Mask<Floats> seen_by(int64_t key, int64_t query) {
    const hn::Rebind<int32_t, Floats> integers;
    const auto last_blind = hn::Set(integers, static_cast<int32_t>(key - query - 1));
    return hn::RebindMask(Floats(), hn::Gt(hn::Iota(integers, 0), last_blind));
}

// Which of the keys from `key` on this query sees.
HWY_INLINE hn::Mask<Floats> seen_up_to(int64_t query, int64_t key) {
    const hn::Rebind<int32_t, Floats> integers;
    const auto first_unseen = hn::Set(integers, static_cast<int32_t>(query - key + 1));
    return hn::RebindMask(Floats(), hn::Lt(hn::Iota(integers, 0), first_unseen));
}

// Dropout of a block's probabilities in one head.
class BlockDropout {
public:
    BlockDropout(const Dropout& dropout, int64_t head) : rule_(dropout), head_(static_cast<uint64_t>(head) << 32) {}

    void start_block(const Dropout& dropout, int64_t first_row, const QueryBlock& block) {
        for (int64_t q = 0; q < block.width; ++q) {
            keys_[q] = q < block.count ? mix(dropout.site, dropout.rows.data[first_row + block.first + q]) : 0;
        }
    }
    HWY_INLINE FloatVector apply(FloatVector vector, int64_t key, int64_t lane) const {
        const uint64_t step = (head_ + static_cast<uint64_t>(key)) * kColumnStep;
        return rule_.apply(vector, [&](int64_t i) HWY_ATTR { return keys_[lane + i] + step; });
    }

private:
    KeepRule rule_;
    uint64_t head_;
    HWY_ALIGN uint64_t keys_[kTileColumns] = {};
};

// Writes turned[dimension][row] to the `count` rows of `output`; `straight` is as much scratch.
template <class T>
void write_turned(const float* turned, float* straight, int64_t count, int64_t head_size, View<T> output) {
    const int64_t width = (head_size + 15) / 16 * 16;
    const Source<float> source{.data = turned, .stride = kTileColumns, .lanes = head_size, .depth = count};
    pack_panel_along_depth<Packing::floats>(source, {0, count}, width, reinterpret_cast<uint32_t*>(straight));
    for (int64_t r = 0; r < count; ++r) {
        const float* from = straight + r * width;
        T* to = output.row(r);
        for_lanes(head_size, [&](int64_t i, int64_t left) HWY_ATTR { store(load(from + i, left), to + i, left); });
    }
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
