#include "accrue/kernels/cuda/cudnn_attention_graph.h"

#include <algorithm>
#include <limits>

namespace accrue::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;
using Extents = CudnnGraph::Extents;

Extents turned(const Extents& of) {
    return {of[0], of[1], of[3], of[2]};
}

// What both graphs have in common.
class AttentionGraph {
public:
    AttentionGraph(const Cudnn& library, const CudnnAttentionShape& shape)
        : graph(library), shape(shape), type(shape.is_half != 0 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16) {
        lengths = graph.memory({.number = static_cast<int64_t>(CudnnRole::lengths),
                                .type = CUDNN_DATA_INT32,
                                .extents = {shape.segments, 1, 1, 1},
                                .strides = {1, 1, 1, 1}});
        if (shape.is_ragged == 0) {
            return;
        }
        for (const int64_t stride : shape.strides()) {
            const auto number = static_cast<int64_t>(CudnnRole::first_offsets) + std::ssize(offsets);
            offsets.push_back({stride, graph.memory({.number = number,
                                                     .type = CUDNN_DATA_INT32,
                                                     .extents = {shape.segments + 1, 1, 1, 1},
                                                     .strides = {1, 1, 1, 1}})});
        }
    }

    // Heads side by side in rows.
    [[nodiscard]] Tensor heads(CudnnRole role, int64_t count, int64_t stride) {
        return add_heads(role, {shape.segments, count, shape.rows, shape.head_size},
                         {shape.rows * stride, shape.head_size, stride, 1}, stride);
    }
    // The same with the elements of a row below one another.
    [[nodiscard]] Tensor turned_heads(CudnnRole role, int64_t count, int64_t stride) {
        return add_heads(role, {shape.segments, count, shape.head_size, shape.rows},
                         {shape.rows * stride, shape.head_size, 1, stride}, stride);
    }
    [[nodiscard]] Tensor log_sum() {
        const int64_t stride = shape.log_sum_stride;
        return graph.memory({.number = static_cast<int64_t>(CudnnRole::log_sum),
                             .type = CUDNN_DATA_FLOAT,
                             .extents = of_rows(),
                             .strides = {shape.rows * stride, 1, stride, 1},
                             .offsets = offset_of(stride)});
    }
    [[nodiscard]] Extents of_rows() const { return {shape.segments, shape.query_heads, shape.rows, 1}; }
    [[nodiscard]] Extents of_scores() const { return {shape.segments, shape.query_heads, shape.rows, shape.rows}; }

    // Scores of rows that do not exist become -infinity.
    [[nodiscard]] Tensor hide_rest(const Tensor& scores) {
        constexpr CudnnGraph::Pointwise kLess = {
            .mode = CUDNN_POINTWISE_CMP_LT, .compute = CUDNN_DATA_BOOLEAN, .result = CUDNN_DATA_BOOLEAN};
        const Tensor query = places(scores, 2, CUDNN_DATA_INT32);
        const Tensor key = places(scores, 3, CUDNN_DATA_INT32);
        const Tensor query_exists = graph.pointwise(kLess, {&query, &lengths});
        const Tensor key_exists = graph.pointwise(kLess, {&key, &lengths});
        const Tensor exist = graph.pointwise(
            {.mode = CUDNN_POINTWISE_LOGICAL_AND, .compute = CUDNN_DATA_BOOLEAN, .result = CUDNN_DATA_BOOLEAN},
            {&query_exists, &key_exists});
        return selected(scores, exist);
    }
    // Scores of keys behind their query become -infinity.
    [[nodiscard]] Tensor hide_later(const Tensor& scores) {
        const Tensor query = places(scores, 2, CUDNN_DATA_FLOAT);
        const Tensor key = places(scores, 3, CUDNN_DATA_FLOAT);
        const Tensor seen = graph.pointwise(
            {.mode = CUDNN_POINTWISE_CMP_GE, .compute = CUDNN_DATA_BOOLEAN, .result = CUDNN_DATA_BOOLEAN},
            {&query, &key});
        return selected(scores, seen);
    }

    CudnnGraph graph;
    const CudnnAttentionShape& shape;
    cudnnDataType_t type;
    Tensor lengths;

private:
    [[nodiscard]] Tensor add_heads(CudnnRole role, const Extents& extents, const Extents& strides, int64_t stride) {
        return graph.memory({.number = static_cast<int64_t>(role),
                             .type = type,
                             .extents = extents,
                             .strides = strides,
                             .offsets = offset_of(stride)});
    }

public:
    [[nodiscard]] const Tensor* offset_of(int64_t stride) const {
        const auto found = std::ranges::find(offsets, stride, &Offsets::stride);
        return found == offsets.end() ? nullptr : &found->tensor;
    }

private:
    [[nodiscard]] Tensor places(const Tensor& scores, int64_t axis, cudnnDataType_t compute) {
        return graph.pointwise(
            {.mode = CUDNN_POINTWISE_GEN_INDEX, .compute = compute, .result = CUDNN_DATA_INT32, .axis = axis},
            {&scores});
    }
    [[nodiscard]] Tensor selected(const Tensor& scores, const Tensor& where) {
        const Tensor nothing = graph.scalar(-std::numeric_limits<float>::infinity());
        return graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {&scores, &nothing, &where});
    }

    struct Offsets {
        int64_t stride;
        Tensor tensor;
    };
    std::vector<Offsets> offsets;
};

CudnnGraph forward_graph(const Cudnn& library, const CudnnAttentionShape& shape) {
    AttentionGraph of(library, shape);
    CudnnGraph& graph = of.graph;
    const Tensor query = of.heads(CudnnRole::query, shape.query_heads, shape.query_stride);
    const Tensor key = of.turned_heads(CudnnRole::key, shape.key_heads, shape.key_stride);
    const Tensor value = of.heads(CudnnRole::value, shape.key_heads, shape.value_stride);
    const Tensor output = of.heads(CudnnRole::output, shape.query_heads, shape.output_stride);
    const Tensor log_sum = of.log_sum();
    const Tensor scale = graph.scalar(shape.scale);

    const Tensor dots = graph.between(CUDNN_DATA_FLOAT, of.of_scores());
    graph.multiply(query, key, dots, {.rows = &of.lengths, .columns = &of.lengths});
    const Tensor all_scores = graph.pointwise(CUDNN_POINTWISE_MUL, {&dots, &scale});
    const Tensor scores = of.hide_later(of.hide_rest(all_scores));

    const Tensor largest = graph.between(CUDNN_DATA_FLOAT, of.of_rows());
    graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
    const Tensor below = graph.pointwise(CUDNN_POINTWISE_SUB, {&scores, &largest});
    const Tensor exponentials = graph.pointwise(CUDNN_POINTWISE_EXP, {&below});
    const Tensor sum = graph.between(CUDNN_DATA_FLOAT, of.of_rows());
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
    const Tensor log = graph.pointwise(CUDNN_POINTWISE_LOG, {&sum});
    graph.pointwise({.mode = CUDNN_POINTWISE_ADD}, {&largest, &log}, log_sum);
    const Tensor probabilities =
        graph.pointwise({.mode = CUDNN_POINTWISE_DIV, .result = of.type}, {&exponentials, &sum});
    graph.multiply(probabilities, value, output, {.rows = &of.lengths, .summands = &of.lengths});
    return std::move(of.graph);
}

// The gradient of one of the products that a key head takes part in: of each query head, then summed over those that share
// the key head.
void multiply_for_keys(AttentionGraph& of, const Tensor& turned_scores, const Tensor& rows, const Tensor& output) {
    const CudnnAttentionShape& shape = of.shape;
    const CudnnGraph::Lengths lengths = {.rows = &of.lengths, .summands = &of.lengths};
    if (shape.query_heads == shape.key_heads) {
        of.graph.multiply(turned_scores, rows, output, lengths);
        return;
    }
    const Tensor of_query_heads =
        of.graph.between(of.type, {shape.segments, shape.query_heads, shape.rows, shape.head_size});
    of.graph.multiply(turned_scores, rows, of_query_heads, lengths);
    of.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, of_query_heads, output);
}

// Scores with queries and keys exchanged, rounded for a product.
Tensor turned_scores(AttentionGraph& of, const Tensor& scores) {
    const CudnnAttentionShape& shape = of.shape;
    const int64_t square = shape.rows * shape.rows;
    const Tensor result =
        of.graph.between(of.type, of.of_scores(), {shape.query_heads * square, square, 1, shape.rows});
    of.graph.reshape(scores, result);
    return result;
}

CudnnGraph gradient_graph(const Cudnn& library, const CudnnAttentionShape& shape) {
    AttentionGraph of(library, shape);
    CudnnGraph& graph = of.graph;
    const Tensor query = of.heads(CudnnRole::query, shape.query_heads, shape.query_stride);
    const Tensor key = of.turned_heads(CudnnRole::key, shape.key_heads, shape.key_stride);
    const Tensor value = of.turned_heads(CudnnRole::value, shape.key_heads, shape.value_stride);
    const Tensor output = of.heads(CudnnRole::output, shape.query_heads, shape.output_stride);
    const Tensor d_output = of.heads(CudnnRole::d_output, shape.query_heads, shape.d_output_stride);
    const Tensor log_sum = of.log_sum();
    const Tensor d_query = of.heads(CudnnRole::d_query, shape.query_heads, shape.d_query_stride);
    const Tensor d_key = of.heads(CudnnRole::d_key, shape.key_heads, shape.d_key_stride);
    const Tensor d_value = of.heads(CudnnRole::d_value, shape.key_heads, shape.d_value_stride);
    const Tensor scale = graph.scalar(shape.scale);
    const Tensor one = graph.scalar(1);

    // delta = d_output . output. A factor belongs to the pattern, for dropout.
    const Tensor products = graph.pointwise(CUDNN_POINTWISE_MUL, {&d_output, &output});
    const Tensor sums = graph.between(CUDNN_DATA_FLOAT, of.of_rows());
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
    const Tensor delta = graph.memory({.number = static_cast<int64_t>(CudnnRole::delta),
                                       .type = CUDNN_DATA_FLOAT,
                                       .extents = of.of_rows(),
                                       .strides = {shape.query_heads * shape.rows, shape.rows, 1, 1}});
    graph.pointwise({.mode = CUDNN_POINTWISE_MUL}, {&sums, &one}, delta);

    // d_value = probabilities^T d_output.
    const Tensor dots = graph.between(CUDNN_DATA_FLOAT, of.of_scores());
    graph.multiply(query, key, dots, {.rows = &of.lengths, .columns = &of.lengths});
    const Tensor all_scores = graph.pointwise(CUDNN_POINTWISE_MUL, {&dots, &scale});
    const Tensor scores = of.hide_rest(all_scores);
    const Tensor below = graph.pointwise(CUDNN_POINTWISE_SUB, {&scores, &log_sum});
    const Tensor seen = of.hide_later(below);
    const Tensor probabilities = graph.pointwise(CUDNN_POINTWISE_EXP, {&seen});
    multiply_for_keys(of, turned_scores(of, probabilities), d_output, d_value);

    // d_scores = scale * probabilities (d_output value^T - delta); d_key = d_scores^T query.
    const Tensor d_probabilities = graph.between(CUDNN_DATA_FLOAT, of.of_scores());
    graph.multiply(d_output, value, d_probabilities, {.rows = &of.lengths, .columns = &of.lengths});
    const Tensor differences = graph.pointwise(CUDNN_POINTWISE_SUB, {&d_probabilities, &delta});
    const Tensor weighted = graph.pointwise(CUDNN_POINTWISE_MUL, {&differences, &probabilities});
    const Tensor d_scores = graph.pointwise({.mode = CUDNN_POINTWISE_MUL, .result = of.type}, {&weighted, &scale});
    multiply_for_keys(of, turned_scores(of, d_scores), query, d_key);

    // d_query = d_scores key. Straight into its place, which is what makes the kernel add in a fixed order.
    const Extents turned_strides = {shape.rows * shape.key_stride, shape.head_size, shape.key_stride, 1};
    const Tensor key_rows = graph.between(of.type, turned(key.extents), turned_strides, of.offset_of(shape.key_stride));
    graph.reshape(key, key_rows);
    graph.multiply(d_scores, key_rows, d_query, {.rows = &of.lengths, .summands = &of.lengths});
    return std::move(of.graph);
}

}  // namespace

std::vector<int64_t> CudnnAttentionShape::strides() const {
    std::vector<int64_t> all = {query_stride, key_stride, value_stride, output_stride, log_sum_stride};
    if (is_gradient != 0) {
        all.insert(all.end(), {d_output_stride, d_query_stride, d_key_stride, d_value_stride});
    }
    std::vector<int64_t> different;
    for (const int64_t stride : all) {
        if (std::ranges::find(different, stride) == different.end()) {
            different.push_back(stride);
        }
    }
    return different;
}

CudnnGraph attention_graph(const Cudnn& library, const CudnnAttentionShape& shape) {
    return shape.is_gradient != 0 ? gradient_graph(library, shape) : forward_graph(library, shape);
}

}  // namespace accrue::cuda
