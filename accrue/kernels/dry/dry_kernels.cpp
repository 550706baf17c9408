#include "accrue/kernels/dry/dry_kernels.h"

#include "accrue/kernels/cpu/workspace.h"

namespace accrue {
namespace {

// Pairs of a query and a key that see each other, over all segments.
int64_t causal_pairs(std::span<const Segment> segments) {
    int64_t pairs = 0;
    for (const Segment& segment : segments) {
        pairs += segment.length * (segment.length + 1) / 2;
    }
    return pairs;
}

// Of one product over all pairs of all query heads: 2 * head_size for each pair.
int64_t attention_product_operations(const AttentionShape& shape, std::span<const Segment> segments) {
    return 2 * causal_pairs(segments) * shape.query_heads * shape.head_size;
}

}  // namespace

// 2 * rows * columns * depth operations.
void DryKernels::count_product(int64_t rows, int64_t columns, int64_t depth) {
    use(cpu::product_workspace_bytes(rows, columns, depth, threads_));
    floating_point_operations_ += 2 * rows * columns * depth;
}

void DryKernels::linear(AnyConstView input, const WeightView& weight, View<const float>, AnyView) {
    count_product(input.rows, weight.out(), weight.in());
}

void DryKernels::linear_residual(AnyConstView input, const WeightView& weight, View<const float>, const Dropout&,
                                 View<const float>, View<float>) {
    count_product(input.rows, weight.out(), weight.in());
}

void DryKernels::linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView) {
    count_product(d_output.rows, weight.in(), weight.out());
}

void DryKernels::add_linear_weight_grad(AnyConstView, AnyConstView input, WeightLayout, const SumView& d_weight,
                                        const HeldRows&) {
    count_product(d_weight.rows, d_weight.columns, input.rows);
}

void DryKernels::add_bias_grad(AnyConstView, const SumView& d_bias) {
    use(cpu::column_sums_workspace_bytes(d_bias.elements()));
}

void DryKernels::add_rms_norm_gain_grad(AnyConstView, AnyConstView, View<const float>, const SumView& d_gain) {
    use(cpu::column_sums_workspace_bytes(d_gain.elements()));
}

void DryKernels::add_layer_norm_gain_grad(AnyConstView, View<const float>, View<const float>, View<const float>,
                                          const SumView& d_gain) {
    use(cpu::column_sums_workspace_bytes(d_gain.elements()));
}

// Two products: scores = query * key^T, output = probabilities * value.
void DryKernels::attention(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView, AnyConstView,
                           AnyConstView, AnyView, View<float>) {
    use(cpu::attention_workspace_bytes(cpu::longest_of(segments), shape.head_size, threads_));
    floating_point_operations_ += 2 * attention_product_operations(shape, segments);
}

// Five products: the scores again, d_probabilities, d_query, d_key and d_value.
void DryKernels::attention_grad(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView,
                                AnyConstView, AnyConstView, AnyConstView, View<const float>, AnyConstView, AnyView,
                                AnyView, AnyView) {
    use(cpu::attention_grad_workspace_bytes(cpu::longest_of(segments), shape.head_size, threads_));
    floating_point_operations_ += 5 * attention_product_operations(shape, segments);
}

void DryKernels::add_lookup_grad(View<const float>, const LookupIndex& index, const HeldRows&, const SumView&) {
    use(cpu::lookup_grad_workspace_bytes(static_cast<int64_t>(index.entries.size())));
}

double DryKernels::squared_norm(const MeanView& gradient) {
    use(cpu::squared_norm_workspace_bytes(gradient.elements));
    return 0;
}

// What takes no scratch has nothing to count.

void DryKernels::rms_norm(AnyConstView, View<const float>, float, AnyView, View<float>) {}
void DryKernels::rms_norm_input_grad(AnyConstView, AnyConstView, View<const float>, View<const float>, AnyView) {}
void DryKernels::add_rms_norm_input_grad(AnyConstView, AnyConstView, View<const float>, View<const float>,
                                         View<float>) {}
void DryKernels::layer_norm(View<const float>, View<const float>, View<const float>, float, AnyView, View<float>,
                            View<float>) {}
void DryKernels::add_layer_norm_input_grad(AnyConstView, View<const float>, View<const float>, View<const float>,
                                           View<const float>, View<float>) {}
void DryKernels::rope(AnyView, View<const int32_t>, View<const float>) {}
void DryKernels::rope_grad(AnyView, View<const int32_t>, View<const float>) {}
void DryKernels::gelu(AnyConstView, AnyView) {}
void DryKernels::gelu_grad(AnyConstView, AnyConstView, AnyView) {}
void DryKernels::swiglu(AnyConstView, AnyView) {}
void DryKernels::swiglu_grad(AnyConstView, AnyConstView, AnyView) {}
void DryKernels::embed(View<const int32_t>, View<const float>, View<const int32_t>, View<const float>, const Dropout&,
                       View<float>) {}
void DryKernels::cross_entropy(View<float>, View<const int32_t>, View<float>, AnyView) {}
void DryKernels::adamw(const MeanView&, const AdamWSettings&, View<float>, View<float>, View<float>, AnyView) {}
void DryKernels::sgd(const MeanView&, const SgdSettings&, View<float>, View<float>, AnyView) {}
void DryKernels::adamw_8bit(const MeanView&, const AdamWSettings&, View<float>, const CodedMoments&, AnyView) {}
void DryKernels::sgd_8bit(const MeanView&, const SgdSettings&, View<float>, const CodedMoments&, AnyView) {}
void DryKernels::cast(View<const float>, const Dropout&, AnyView) {}
void DryKernels::fill_zero(std::span<std::byte>) {}
void DryKernels::copy_in(std::span<const std::byte>, std::span<std::byte>) {}
void DryKernels::copy_out(View<const float>, std::span<float>) {}

std::unique_ptr<DryKernels> make_dry_kernels(Arena& arena, int threads) {
    return std::make_unique<DryKernels>(arena, threads);
}

}  // namespace accrue
