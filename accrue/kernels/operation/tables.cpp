#include "accrue/kernels/operation/tables.h"

namespace accrue::op {

void Embed::check() const {
    require_equal(kName, "tokens", tokens.columns, output.rows);
    require_equal(kName, "columns of table", table.columns, output.columns);
    require_rows(kName, dropout, output.rows);
    if (!position_table.empty()) {
        require_equal(kName, "positions", positions.columns, output.rows);
        require_equal(kName, "columns of position_table", position_table.columns, output.columns);
    }
}

void Embed::count(WorkByPart& work) const {
    work.add(part(), 0, 2 * bytes_in(output));
}

void AddLookupGrad::check() const {
    for (const LookupGrain& grain : grains) {
        require_equal(kName, "columns of d_table", grain.d_table.columns, d_output.columns);
        require_equal(kName, "offsets of the index", grain.index.first_place.columns, grain.index.entries.columns + 1);
        if (!grain.held.slot_of_row.empty()) {
            require_equal(kName, "rows of held.slot_of_row", grain.held.slot_of_row.columns, grain.d_table.rows);
            require_equal(kName, "columns of held.values", grain.held.values.columns, d_output.columns);
        }
    }
}

void AddLookupGrad::count(WorkByPart& work) const {
    for (const LookupGrain& grain : grains) {
        work.add(part(), 0, bytes_in(d_output.slice_rows(grain.rows.first, grain.rows.rows)));
    }
}

void CrossEntropy::check() const {
    require_equal(kName, "targets", targets.columns, logits.rows);
    require_equal(kName, "losses", losses.columns, logits.rows);
    if (logits.dtype != DType::fp32 && logits.dtype != d_logits.dtype && !d_logits.empty()) {
        throw Error(cat(kName, " was given logits in ", name_of(logits.dtype), " and gradients in ",
                        name_of(d_logits.dtype), "; logits that are not fp32 share the dtype of their gradients"));
    }
    if (!d_logits.empty()) {
        require_alike(kName, "d_logits", d_logits, logits);
    }
}

void CrossEntropy::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(logits) + bytes_in(d_logits));
}

void GrainLosses::check() const {
    require_equal(kName, "sums", sums.columns, std::ssize(grains));
}

void GrainLosses::count(WorkByPart& work) const {
    work.add(part(), 0, bytes_in(losses));
}

}  // namespace accrue::op
