#include <algorithm>
#include <cmath>
#include <vector>

#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {
namespace {

double dot(AnyConstView a, int64_t a_row, AnyConstView b, int64_t b_row) {
    double sum = 0;
    for (int64_t c = 0; c < a.columns; ++c) {
        sum += value(a, a_row, c) * value(b, b_row, c);
    }
    return sum;
}

double log_sum_of(const std::vector<double>& scores) {
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) {
        sum += std::exp(score - largest);
    }
    return largest + std::log(sum);
}

template <class Any>
Any head_of(const Any& matrix, const AttentionShape& shape, int64_t head) {
    return matrix.slice_columns(head * shape.head_size, shape.head_size);
}

std::span<const Segment> list_of(const Segments& segments) {
    return {segments.list.data, static_cast<size_t>(segments.list.columns)};
}

double probability_factor(const AttentionShape& shape, int64_t head, int64_t query_row, int64_t key_place) {
    return dropout_factor(shape.dropout, query_row,
                          (static_cast<uint64_t>(head) << 32) + static_cast<uint64_t>(key_place));
}

// Rows of one head that are summed up in double until they are whole.
class DoubleRows {
public:
    DoubleRows(int64_t rows, int64_t columns) : columns_(columns), values_(static_cast<size_t>(rows * columns)) {}

    void add(int64_t r, double factor, AnyConstView other, int64_t other_row) {
        for (int64_t c = 0; c < columns_; ++c) {
            values_[static_cast<size_t>(r * columns_ + c)] += factor * value(other, other_row, c);
        }
    }
    void store_to(AnyView view, int64_t first_row) const {
        for (size_t i = 0; i < values_.size(); ++i) {
            const auto place = static_cast<int64_t>(i);
            store(view, first_row + place / columns_, place % columns_, values_[i]);
        }
    }

private:
    int64_t columns_;
    std::vector<double> values_;
};

}  // namespace

void compute(const op::Attention& call) {
    const int64_t group = call.shape.query_heads / call.shape.key_heads;
    for (const Segment& segment : list_of(call.segments)) {
        for (int64_t head = 0; head < call.shape.query_heads; ++head) {
            const AnyConstView q = head_of(call.query, call.shape, head);
            const AnyConstView k = head_of(call.key, call.shape, head / group);
            const AnyConstView v = head_of(call.value, call.shape, head / group);
            for (int64_t i = 0; i < segment.length; ++i) {
                const int64_t row = segment.first + i;
                std::vector<double> scores;
                for (int64_t j = 0; j < rows_seen(call.shape.mask, i, segment.length); ++j) {
                    scores.push_back(call.shape.scale * dot(q, row, k, segment.first + j));
                }
                const double log_of_sum = log_sum_of(scores);
                store(call.log_sum, row, head, log_of_sum);
                DoubleRows mixed(1, call.shape.head_size);
                for (int64_t j = 0; j < rows_seen(call.shape.mask, i, segment.length); ++j) {
                    const double p = std::exp(scores[static_cast<size_t>(j)] - log_of_sum);
                    mixed.add(0, p * probability_factor(call.shape, head, row, j), v, segment.first + j);
                }
                mixed.store_to(head_of(call.output, call.shape, head), row);
            }
        }
    }
}

void compute(const op::AttentionGrad& call) {
    const int64_t group = call.shape.query_heads / call.shape.key_heads;
    for (const Segment& segment : list_of(call.segments)) {
        for (int64_t key_head = 0; key_head < call.shape.key_heads; ++key_head) {
            const AnyConstView k = head_of(call.key, call.shape, key_head);
            const AnyConstView v = head_of(call.value, call.shape, key_head);
            DoubleRows d_k(segment.length, call.shape.head_size);
            DoubleRows d_v(segment.length, call.shape.head_size);
            for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
                const AnyConstView q = head_of(call.query, call.shape, head);
                const AnyConstView d_o = head_of(call.d_output, call.shape, head);
                DoubleRows d_q(segment.length, call.shape.head_size);
                for (int64_t i = 0; i < segment.length; ++i) {
                    const int64_t row = segment.first + i;
                    // The sum over j of p * d_p, which the softmax takes from each d_p; it equals d_output . output.
                    const double mean = dot(d_o, row, head_of(call.output, call.shape, head), row);
                    for (int64_t j = 0; j < rows_seen(call.shape.mask, i, segment.length); ++j) {
                        const int64_t other = segment.first + j;
                        const double p =
                            std::exp(call.shape.scale * dot(q, row, k, other) - call.log_sum.row(row)[head]);
                        const double factor = probability_factor(call.shape, head, row, j);
                        const double d_score = p * (factor * dot(d_o, row, v, other) - mean) * call.shape.scale;
                        d_q.add(i, d_score, k, other);
                        d_k.add(j, d_score, q, row);
                        d_v.add(j, p * factor, d_o, row);
                    }
                }
                d_q.store_to(head_of(call.d_query, call.shape, head), segment.first);
            }
            d_k.store_to(head_of(call.d_key, call.shape, key_head), segment.first);
            d_v.store_to(head_of(call.d_value, call.shape, key_head), segment.first);
        }
    }
}

}  // namespace accrue::reference
