#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {

void compute(const op::Embed& call) {
    for (int64_t r = 0; r < call.output.rows; ++r) {
        for (int64_t c = 0; c < call.output.columns; ++c) {
            const double position =
                call.position_table.empty() ? 0 : value(call.position_table, call.positions.data[r], c);
            const double factor = dropout_factor(call.dropout, r, static_cast<uint64_t>(c));
            store(call.output, r, c, factor == 0 ? 0 : (value(call.table, call.tokens.data[r], c) + position) * factor);
        }
    }
}

void compute(const op::AddLookupGrad& call) {
    for (const auto& [rows, index, held, d_table] : call.grains) {
        for (int64_t e = 0; e < index.entries.columns; ++e) {
            const int32_t entry = index.entries.data[e];
            const int32_t slot = slot_of(held, entry);
            for (int64_t c = 0; c < d_table.columns; ++c) {
                double sum = slot < 0 ? 0 : value(held.values, slot, c);
                for (int32_t p = index.first_place.data[e]; p < index.first_place.data[e + 1]; ++p) {
                    sum += value(call.d_output, rows.first + index.places.data[p], c);
                }
                add(d_table, entry, c, sum);
            }
        }
    }
}

}  // namespace accrue::reference
