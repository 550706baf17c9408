#include "accrue/kernels/operation/attention.h"

namespace accrue::op {
namespace {

void check_rope(std::string_view operation, const AnyConstView& heads, View<const int32_t> positions,
                View<const float> table) {
    require_equal(operation, "positions", positions.columns, heads.rows);
    if (table.columns < 1 || heads.columns % table.columns != 0) {
        throw Error(
            cat(operation, " was given ", heads.columns, " columns, which are no whole heads of ", table.columns));
    }
}

// Of one product over all pairs of all query heads: 2 * head_size for each pair.
double product_flops(const AttentionShape& shape, const Segments& segments) {
    return static_cast<double>(2 * segments.pairs * shape.query_heads * shape.head_size);
}

void check_heads(std::string_view operation, const AttentionShape& shape, const Segments& segments,
                 const AnyConstView& query, const AnyConstView& key, const AnyConstView& value,
                 View<const float> log_sum) {
    if (shape.longest > 0 && segments.longest > shape.longest) {
        throw Error(
            cat(operation, " was given a segment of ", segments.longest, " rows, and its longest has ", shape.longest));
    }
    require_equal(operation, "columns of query", query.columns, shape.query_heads * shape.head_size);
    require_equal(operation, "columns of key", key.columns, shape.key_heads * shape.head_size);
    require_equal(operation, "rows of key", key.rows, query.rows);
    require_alike(operation, "value", value, key);
    require_equal(operation, "rows of log_sum", log_sum.rows, query.rows);
    require_equal(operation, "columns of log_sum", log_sum.columns, shape.query_heads);
    require_rows(operation, shape.dropout, query.rows);
}

}  // namespace

void Rope::check() const {
    check_rope(kName, heads, positions, table);
}

void Rope::count(WorkByPart& work) const {
    work.add(part(), 0, 2 * bytes_in(heads));
}

void RopeGrad::check() const {
    check_rope(kName, d_heads, positions, table);
}

void RopeGrad::count(WorkByPart& work) const {
    work.add(part(), 0, 2 * bytes_in(d_heads));
}

void Attention::check() const {
    check_heads(kName, shape, segments, query, key, value, log_sum);
    require_alike(kName, "output", output, query);
}

// Two products: scores = query * key^T, output = probabilities * value.
void Attention::count(WorkByPart& work) const {
    work.add(part(), 2 * product_flops(shape, segments), 0);
}

void AttentionGrad::check() const {
    check_heads(kName, shape, segments, query, key, value, log_sum);
    require_alike(kName, "output", output, query);
    require_alike(kName, "d_output", d_output, query);
    require_alike(kName, "d_query", d_query, query);
    require_alike(kName, "d_key", d_key, key);
    require_alike(kName, "d_value", d_value, value);
}

// Five products: the scores again, d_probabilities, d_query, d_key and d_value.
void AttentionGrad::count(WorkByPart& work) const {
    work.add(part(), 5 * product_flops(shape, segments), 0);
}

}  // namespace accrue::op
