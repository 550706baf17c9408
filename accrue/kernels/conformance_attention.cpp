#include <algorithm>
#include <cmath>

#include "accrue/kernels/conformance.h"

namespace accrue::conformance {
namespace {

// Of all segments below: a device may choose by it.
constexpr int64_t kLongest = 1000;

// Segments begin at fixed places of the endless input, so that a part of the rows has the same ones.
std::vector<Segment> segments_of(const Case& tried) {
    constexpr int64_t kStarts[] = {0, 1, 8, 71, 136, 1136};
    std::vector<Segment> segments;
    for (size_t i = 0; i + 1 < std::size(kStarts); ++i) {
        const int64_t first = std::max(kStarts[i] - tried.first_row, int64_t{0});
        const int64_t last = std::min(kStarts[i + 1] - tried.first_row, tried.rows);
        if (first < last) {
            segments.push_back({first, last - first});
        }
    }
    return segments;
}

struct Inputs {
    Mask mask;
    AttentionShape shape;
    std::vector<Segment> list;
    Segments segments;
    Matrix query;
    Matrix key;
    Matrix value;

    explicit Inputs(const Case& tried)
        : mask(tried, 9),
          shape{.query_heads = tried.out * 2,
                .key_heads = tried.out,
                .head_size = tried.in,
                .scale = 1 / std::sqrt(static_cast<float>(tried.in)),
                .longest = kLongest,
                .dropout = mask.dropout},
          list(segments_of(tried)),
          segments(Segments::of(list, list.data())),
          query(Matrix::random(tried, tried.dtype, 1, tried.rows, shape.query_heads * tried.in)),
          key(Matrix::random(tried, tried.dtype, 2, tried.rows, shape.key_heads * tried.in)),
          value(Matrix::random(tried, tried.dtype, 3, tried.rows, shape.key_heads * tried.in)) {}
};

Outcome attended(const Case& tried, const std::string& name, const Matrix& matrix) {
    Outcome outcome = by_row(tried, name, matrix);
    outcome.mixes_probabilities = tried.dtype != DType::fp32;
    outcome.at_least =
        1e-6;  // where a query sees one key only, its gradient is a difference of equal numbers: 0 or a rounding
    return outcome;
}

Outcomes attention(Kernels& kernels, const Case& tried) {
    Inputs inputs(tried);
    Matrix output = Matrix::poison(tried, tried.output_dtype, tried.rows, inputs.query.columns());
    Matrix log_sum = Matrix::poison(tried, DType::fp32, tried.rows, inputs.shape.query_heads);
    kernels.run(op::Attention{inputs.shape, inputs.segments, inputs.query.any(), inputs.key.any(), inputs.value.any(),
                              output.any(), log_sum.floats()});
    return {attended(tried, "output", output), by_row(tried, "log_sum", log_sum)};
}

Outcomes attention_grad(Kernels& kernels, const Case& tried) {
    Inputs inputs(tried);
    Matrix output = Matrix::poison(tried, tried.dtype, tried.rows, inputs.query.columns());
    Matrix log_sum = Matrix::poison(tried, DType::fp32, tried.rows, inputs.shape.query_heads);
    Arena none(1);
    make_reference_kernels(none)->run(op::Attention{inputs.shape, inputs.segments, inputs.query.any(), inputs.key.any(),
                                                    inputs.value.any(), output.any(), log_sum.floats()});
    Matrix d_output = Matrix::random(tried, tried.dtype, 4, tried.rows, inputs.query.columns());
    Matrix d_query = Matrix::poison(tried, tried.output_dtype, tried.rows, inputs.query.columns());
    Matrix d_key = Matrix::poison(tried, tried.output_dtype, tried.rows, inputs.key.columns());
    Matrix d_value = Matrix::poison(tried, tried.output_dtype, tried.rows, inputs.key.columns());
    kernels.run(op::AttentionGrad{inputs.shape, inputs.segments, inputs.query.any(), inputs.key.any(),
                                  inputs.value.any(), output.any(), log_sum.floats(), d_output.any(), d_query.any(),
                                  d_key.any(), d_value.any()});
    return {attended(tried, "d_query", d_query), attended(tried, "d_key", d_key), attended(tried, "d_value", d_value)};
}

std::vector<Case> attention_cases() {
    std::vector<Case> cases;
    for (const auto& [rows, head_size, key_heads] : std::initializer_list<std::array<int64_t, 3>>{{1, 1, 1},
                                                                                                  {7, 7, 1},
                                                                                                  {136, 63, 1},
                                                                                                  {71, 65, 2},
                                                                                                  {65, 64, 3},
                                                                                                  {200, 128, 1},
                                                                                                  {140, 16, 2},
                                                                                                  {0, 8, 1},
                                                                                                  {300, 5, 1},
                                                                                                  {9, 130, 1}}) {
        for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
            const DType other = dtype == DType::fp32 ? DType::bf16 : DType::fp32;
            const Case plain{.dtype = dtype, .output_dtype = dtype, .rows = rows, .in = head_size, .out = key_heads};
            cases.push_back(plain);
            cases.push_back(plain);
            cases.back().output_dtype = other;
            cases.back().gap = 3;
            cases.back().dropout = 0.2F;
        }
    }
    return cases;
}

Outcomes rope(Kernels& kernels, const Case& tried) {
    constexpr int64_t kPositions = 50;
    const int64_t head = tried.in + tried.in % 2;
    const std::vector<int32_t> positions = random_indices(tried, 6, tried.rows, kPositions);
    Matrix table = Matrix::random(fixed(tried), DType::fp32, 1, kPositions, head);
    Matrix heads = Matrix::random(tried, tried.dtype, 2, tried.rows, 3 * head);
    Matrix d_heads = Matrix::random(tried, tried.dtype, 3, tried.rows, 3 * head);
    kernels.run(op::Rope{heads.any(), row_of(positions), table.floats()});
    kernels.run(op::RopeGrad{d_heads.any(), row_of(positions), table.floats()});
    return {by_row(tried, "heads", heads), by_row(tried, "d_heads", d_heads)};
}

}  // namespace

std::vector<Operation> attention_operations() {
    return {
        {"attention", attention, attention_cases()},
        {"attention_grad", attention_grad, attention_cases()},
        {"rope", rope, usual_cases()},
    };
}

}  // namespace accrue::conformance
