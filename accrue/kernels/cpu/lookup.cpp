#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/lookup.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "accrue/kernels/cpu/dropout-inl.h"
#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/elementwise_plan.h"
#include "accrue/kernels/cpu/exact_add-inl.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// output = word + position, where there is one; `position` may be nullptr.
HWY_INLINE void embed_row(const float* word, const float* position, int64_t columns, float* output) {
    for_lanes(columns, [&](int64_t i, int64_t left) HWY_ATTR {
        const auto x = load(word + i, left);
        store(position == nullptr ? x : hn::Add(x, load(position + i, left)), output + i, left);
    });
}

void embed(Pool& pool, View<const int32_t> tokens, View<const float> table, View<const int32_t> positions,
           View<const float> position_table, const Dropout& dropout, View<float> output) {
    for_ranges(pool, output.rows, output.columns, [&](int64_t first, int64_t last) HWY_ATTR {
        for (int64_t r = first; r < last; ++r) {
            const float* position = position_table.empty() ? nullptr : position_table.row(positions.data[r]);
            float* row = output.row(r);
            embed_row(table.row(tokens.data[r]), position, output.columns, row);
            if (dropout.probability > 0) {
                const RowDropout row_dropout(dropout, r);
                for_lanes(output.columns, [&](int64_t i, int64_t left) HWY_ATTR {
                    store(row_dropout.apply(load(row + i, left), static_cast<uint64_t>(i)), row + i, left);
                });
            }
        }
    });
}

// One entry's gradient: what was held for it and the rows of its places, in order.
struct EntryGradient {
    View<const float> d_output;
    std::span<const int32_t> places;
    const float* held = nullptr;  // nullptr: nothing was held

    HWY_INLINE FloatVector lanes(int64_t column, int64_t left) const {
        FloatVector sum = held == nullptr ? hn::Zero(Floats()) : load(held + column, left);
        for (const int32_t place : places) {
            sum = hn::Add(sum, load(d_output.row(place) + column, left));
        }
        return sum;
    }
};

GrainRecord add_entry(const EntryGradient& gradient, const SumView& d_table, int32_t entry) {
    constexpr int64_t kStretch = 256;
    HWY_ALIGN float totals[kStretch];
    ValueAdder adder(d_table);
    for (int64_t column = 0; column < d_table.columns; column += kStretch) {
        const int64_t count = std::min(kStretch, d_table.columns - column);
        for_lanes(count,
                  [&](int64_t i, int64_t left) HWY_ATTR { store(gradient.lanes(column + i, left), totals + i, left); });
        adder.add(totals, count, entry * d_table.columns + column);
    }
    return adder.record();
}

void add_lookup_grad(Pool& pool, View<const float> d_output, const LookupIndex& index, const HeldRows& held,
                     const SumView& d_table, GrainRecord* records) {
    const auto entries = index.entries.columns;
    const auto places = index.places.columns;
    const int64_t cost = (1 + places / std::max<int64_t>(entries, 1)) * d_table.columns;
    for_ranges(pool, entries, cost, [&](int64_t first, int64_t last) HWY_ATTR {
        for (auto e = static_cast<size_t>(first); e < static_cast<size_t>(last); ++e) {
            const int32_t entry = index.entries.data[e];
            const auto begin = static_cast<size_t>(index.first_place.data[e]);
            const auto end = static_cast<size_t>(index.first_place.data[e + 1]);
            const int32_t slot = held.slot_of_row.empty() ? -1 : held.slot_of_row.data[entry];
            records[e] = add_entry({.d_output = d_output,
                                    .places = std::span(index.places.data + begin, end - begin),
                                    .held = slot < 0 ? nullptr : held.values.row(slot)},
                                   d_table, entry);
        }
    });
    for (int64_t e = 0; e < entries; ++e) {
        add_record(*d_table.record, records[e]);
    }
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

void embed(const Context& context, View<const int32_t> tokens, View<const float> table, View<const int32_t> positions,
           View<const float> position_table, const Dropout& dropout, View<float> output) {
    pick(context.set, N_SCALAR::embed, N_AVX2::embed, N_AVX3::embed)(context.pool, tokens, table, positions,
                                                                     position_table, dropout, output);
}

void add_lookup_grad(const Context& context, View<const float> d_output, const LookupIndex& index, const HeldRows& held,
                     const SumView& d_table) {
    const auto entries = index.entries.columns;
    const Arena::Block scratch = context.arena.take(lookup_grad_workspace_bytes(entries));
    pick(context.set, N_SCALAR::add_lookup_grad, N_AVX2::add_lookup_grad, N_AVX3::add_lookup_grad)(
        context.pool, d_output, index, held, d_table, reinterpret_cast<GrainRecord*>(scratch.data()));
}

}  // namespace accrue::cpu
#endif
