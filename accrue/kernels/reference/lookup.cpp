#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {

void ReferenceKernels::embed(View<const int32_t> tokens, View<const float> table, View<const int32_t> positions,
                             View<const float> position_table, const Dropout& dropout, View<float> output) {
    for (int64_t r = 0; r < output.rows; ++r) {
        for (int64_t c = 0; c < output.columns; ++c) {
            const double position = position_table.empty() ? 0 : value(position_table, positions.data[r], c);
            const double factor = dropout_factor(dropout, r, static_cast<uint64_t>(c));
            store(output, r, c, factor == 0 ? 0 : (value(table, tokens.data[r], c) + position) * factor);
        }
    }
}

void ReferenceKernels::add_lookup_grad(View<const float> d_output, const LookupIndex& index, const HeldRows& held,
                                       const SumView& d_table) {
    for (size_t e = 0; e < index.entries.size(); ++e) {
        const int32_t entry = index.entries[e];
        const int32_t slot = slot_of(held, entry);
        for (int64_t c = 0; c < d_table.columns; ++c) {
            double sum = slot < 0 ? 0 : value(held.values, slot, c);
            for (int32_t p = index.first_place[e]; p < index.first_place[e + 1]; ++p) {
                sum += value(d_output, index.places[static_cast<size_t>(p)], c);
            }
            add(d_table, entry, c, sum);
        }
    }
}

}  // namespace accrue
