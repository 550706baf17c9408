#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "accrue/base/error.h"
#include "accrue/kernels/part.h"
#include "accrue/kernels/sum_view.h"
#include "accrue/tensor/view.h"

// What operations have in common: what they are given, how they are checked and counted.
namespace accrue {

// Some rows of a matrix: those of a grain, for example.
struct RowRange {
    int64_t first = 0;
    int64_t rows = 0;
};

// Drops each element with a probability and scales the others by 1 / (1 - probability).
// Element (r, c) is kept when the upper 32 bits of mix(mix(site, rows[r]) + c * 0x9e3779b97f4a7c15) are at least
// probability * 2^32, so a mask is a function of who the row is, never of where it lies. Probability 0 changes nothing.
struct Dropout {
    float probability = 0;
    uint64_t site = 0;          // seed, layer and place in the layer, mixed
    View<const uint64_t> rows;  // [1, rows]: epoch, sample and position of each row, mixed
};

// Rows of a weight gradient that are not added yet because a second source follows (a tied embedding).
struct HeldRows {
    View<const int32_t> slot_of_row;  // [1, rows of the weight]: the row's slot in values, or -1; empty = hold nothing
    View<float> values;               // [slots, columns]
};

namespace op {

// An error if an operation was given views that do not fit together. The words are put together only then: an operation
// may be short.
inline void require_equal(std::string_view operation, std::string_view what, std::string_view of, int64_t found,
                          int64_t wanted) {
    if (found != wanted) {
        throw Error(cat(operation, " was given ", found, " ", what, of, " where the other views have ", wanted));
    }
}
inline void require_equal(std::string_view operation, std::string_view what, int64_t found, int64_t wanted) {
    require_equal(operation, what, "", found, wanted);
}

// `like` and `view` have the same extents.
template <class A, class B>
void require_alike(std::string_view operation, std::string_view what, const A& view, const B& like) {
    require_equal(operation, "rows of ", what, view.rows, like.rows);
    require_equal(operation, "columns of ", what, view.columns, like.columns);
}

inline void require_rows(std::string_view operation, const Dropout& dropout, int64_t rows) {
    if (dropout.probability > 0) {
        require_equal(operation, "rows of dropout", dropout.rows.columns, rows);
    }
}

[[nodiscard]] inline int64_t bytes_in(const AnyConstView& view) {
    return view.elements() * bytes_of(view.dtype);
}
// A sum is read and written.
[[nodiscard]] inline int64_t bytes_in(const SumView& sum) {
    return 2 * sum.elements() * bytes_of(sum.kind);
}

// One sum of a vector for each grain, or none at all.
inline void require_sums(std::string_view operation, std::string_view what, std::span<const SumView> sums,
                         std::span<const RowRange> grains, int64_t columns) {
    if (sums.empty()) {
        return;
    }
    require_equal(operation, "sums of ", what, std::ssize(sums), std::ssize(grains));
    for (const SumView& sum : sums) {
        require_equal(operation, "elements of ", what, sum.elements(), columns);
    }
}

// Column sums of what an operation writes anyway: a bias's gradient, of which only the sums are moved.
inline void count_sums_of_written(WorkByPart& work, std::span<const SumView> sums) {
    for (const SumView& sum : sums) {
        work.add(Part::elementwise, 0, bytes_in(sum));
    }
}

}  // namespace op
}  // namespace accrue
