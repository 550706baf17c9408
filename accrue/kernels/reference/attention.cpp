#include <algorithm>
#include <cmath>
#include <vector>

#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {
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

void ReferenceKernels::attention(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query,
                                 AnyConstView key, AnyConstView value, AnyView output, View<float> log_sum) {
    const int64_t group = shape.query_heads / shape.key_heads;
    for (const Segment& segment : segments) {
        for (int64_t head = 0; head < shape.query_heads; ++head) {
            const AnyConstView q = head_of(query, shape, head);
            const AnyConstView k = head_of(key, shape, head / group);
            const AnyConstView v = head_of(value, shape, head / group);
            for (int64_t i = 0; i < segment.length; ++i) {
                const int64_t row = segment.first + i;
                std::vector<double> scores;
                for (int64_t j = 0; j <= i; ++j) {
                    scores.push_back(shape.scale * dot(q, row, k, segment.first + j));
                }
                const double log_of_sum = log_sum_of(scores);
                store(log_sum, row, head, log_of_sum);
                DoubleRows mixed(1, shape.head_size);
                for (int64_t j = 0; j <= i; ++j) {
                    const double p = std::exp(scores[static_cast<size_t>(j)] - log_of_sum);
                    mixed.add(0, p * probability_factor(shape, head, row, j), v, segment.first + j);
                }
                mixed.store_to(head_of(output, shape, head), row);
            }
        }
    }
}

void ReferenceKernels::attention_grad(const AttentionShape& shape, std::span<const Segment> segments,
                                      AnyConstView query, AnyConstView key, AnyConstView value, AnyConstView output,
                                      View<const float> log_sum, AnyConstView d_output, AnyView d_query, AnyView d_key,
                                      AnyView d_value) {
    const int64_t group = shape.query_heads / shape.key_heads;
    for (const Segment& segment : segments) {
        for (int64_t key_head = 0; key_head < shape.key_heads; ++key_head) {
            const AnyConstView k = head_of(key, shape, key_head);
            const AnyConstView v = head_of(value, shape, key_head);
            DoubleRows d_k(segment.length, shape.head_size);
            DoubleRows d_v(segment.length, shape.head_size);
            for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
                const AnyConstView q = head_of(query, shape, head);
                const AnyConstView d_o = head_of(d_output, shape, head);
                DoubleRows d_q(segment.length, shape.head_size);
                for (int64_t i = 0; i < segment.length; ++i) {
                    const int64_t row = segment.first + i;
                    // The sum over j of p * d_p, which the softmax takes from each d_p; it equals d_output . output.
                    const double mean = dot(d_o, row, head_of(output, shape, head), row);
                    for (int64_t j = 0; j <= i; ++j) {
                        const int64_t other = segment.first + j;
                        const double p = std::exp(shape.scale * dot(q, row, k, other) - log_sum.row(row)[head]);
                        const double factor = probability_factor(shape, head, row, j);
                        const double d_score = p * (factor * dot(d_o, row, v, other) - mean) * shape.scale;
                        d_q.add(i, d_score, k, other);
                        d_k.add(j, d_score, q, row);
                        d_v.add(j, p * factor, d_o, row);
                    }
                }
                d_q.store_to(head_of(d_query, shape, head), segment.first);
            }
            d_k.store_to(head_of(d_key, shape, key_head), segment.first);
            d_v.store_to(head_of(d_value, shape, key_head), segment.first);
        }
    }
}

}  // namespace accrue
