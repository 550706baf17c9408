#include "accrue/kernels/dry/dry_kernels.h"

#include <algorithm>

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
double attention_product_operations(const AttentionShape& shape, std::span<const Segment> segments) {
    return static_cast<double>(2 * causal_pairs(segments) * shape.query_heads * shape.head_size);
}

int64_t bytes_in(const AnyConstView& view) {
    return view.elements() * bytes_of(view.dtype);
}

// A sum is read and written.
int64_t bytes_in(const SumView& sum) {
    return 2 * sum.elements() * bytes_of(sum.kind);
}

int64_t bytes_in_all(const auto&... views) {
    return (0 + ... + bytes_in(views));
}

// The product that a weight's gradient is.
cpu::ProductShape weight_product(AnyConstView d_output, AnyConstView input, const SumView& d_weight) {
    const bool turned = cpu::is_turned(d_weight.rows, d_weight.columns, d_output.dtype);
    return {.rows = turned ? d_weight.columns : d_weight.rows,
            .columns = turned ? d_weight.rows : d_weight.columns,
            .depth = input.rows};
}

}  // namespace

int64_t DryKernels::floating_point_operations() const {
    double flops = 0;
    for (const Work& work : work_) {
        flops += work.flops;
    }
    return static_cast<int64_t>(flops);
}

void DryKernels::restart() {
    work_ = {};
    moments_ = {};
}

void DryKernels::use(int64_t bytes) {
    moments_.largest_scratch = std::max(moments_.largest_scratch, bytes);
    arena_.take(bytes).release();
}

void DryKernels::count(Part part, double flops, double bytes) {
    Work& work = work_[static_cast<size_t>(part)];
    work.flops += flops;
    work.bytes += bytes;
    note_moment(part);
}

void DryKernels::note_moment(Part part) {
    const int64_t now = arena_.bytes_in_use();
    if (part == Part::loss_head) {
        moments_.at_loss = moments_.at_loss > 0 ? moments_.at_loss : now;
        moments_.at_loss_peak = std::max(moments_.at_loss_peak, now);
    } else if (part == Part::norms && moments_.at_loss == 0) {
        moments_.before_loss = now;
    }
}

// 2 * rows * columns * depth operations.
void DryKernels::count_product(Part part, int64_t rows, int64_t columns, int64_t depth, int64_t bytes) {
    use(cpu::product_workspace_bytes(rows, columns, depth, threads_));
    count(part, 2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth),
          static_cast<double>(bytes));
}

void DryKernels::linear(AnyConstView input, const WeightView& weight, View<const float>, AnyView output) {
    count_product(part_of_product(weight.out(), vocabulary_, Part::products_forward), input.rows, weight.out(),
                  weight.in(), bytes_in_all(input, weight.matrix, AnyConstView(output)));
}

void DryKernels::linear_residual(AnyConstView input, const WeightView& weight, View<const float>, const Dropout&,
                                 View<const float> residual, View<float> output) {
    count_product(Part::products_forward, input.rows, weight.out(), weight.in(),
                  bytes_in_all(input, weight.matrix, AnyConstView(residual), AnyConstView(output)));
}

void DryKernels::linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView d_input) {
    count_product(part_of_product(weight.out(), vocabulary_, Part::products_input), d_output.rows, weight.in(),
                  weight.out(), bytes_in_all(d_output, weight.matrix, AnyConstView(d_input)));
    started_.clear();
}

void DryKernels::add_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout,
                                        const SumView& d_weight, const HeldRows&) {
    const cpu::ProductShape shape = weight_product(d_output, input, d_weight);
    count_product(part_of_product(d_output.columns, vocabulary_, Part::products_weight), shape.rows, shape.columns,
                  shape.depth, bytes_in_all(d_output, input, d_weight));
}

void DryKernels::start_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                          const SumView& d_weight, const HeldRows& held) {
    const bool same_sum = std::ranges::any_of(started_, [&](const Started& s) { return s.sum == d_weight.data; });
    if (same_sum || started_.size() == cpu::kMostStartedProducts) {
        started_.clear();
    }
    add_linear_weight_grad(d_output, input, layout, d_weight, held);
    const cpu::ProductShape shape = weight_product(d_output, input, d_weight);
    started_.push_back(
        {.sum = d_weight.data,
         .scratch = arena_.take(cpu::product_workspace_bytes(shape.rows, shape.columns, shape.depth, threads_))});
}

void DryKernels::add_bias_grad(AnyConstView d_output, const SumView& d_bias) {
    started_.clear();
    count(Part::elementwise, 0, static_cast<double>(bytes_in_all(d_output, d_bias)));
    use(cpu::column_sums_workspace_bytes(d_bias.elements()));
}

void DryKernels::add_rms_norm_gain_grad(AnyConstView d_output, AnyConstView input, View<const float>,
                                        const SumView& d_gain) {
    count(Part::norms, 0, static_cast<double>(bytes_in_all(d_output, input)));
    use(cpu::column_sums_workspace_bytes(d_gain.elements()));
}

void DryKernels::add_layer_norm_gain_grad(AnyConstView d_output, View<const float> input, View<const float>,
                                          View<const float>, const SumView& d_gain) {
    count(Part::norms, 0, static_cast<double>(bytes_in_all(d_output, AnyConstView(input))));
    use(cpu::column_sums_workspace_bytes(d_gain.elements()));
}

// Two products: scores = query * key^T, output = probabilities * value.
void DryKernels::attention(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView, AnyConstView,
                           AnyConstView, AnyView, View<float>) {
    use(cpu::attention_workspace_bytes(cpu::longest_of(segments), shape.head_size, threads_));
    if (moments_.at_loss == 0) {
        moments_.at_attention.push_back(arena_.bytes_in_use());
    }
    count(Part::attention, 2 * attention_product_operations(shape, segments), 0);
}

// Five products: the scores again, d_probabilities, d_query, d_key and d_value.
void DryKernels::attention_grad(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView,
                                AnyConstView, AnyConstView, AnyConstView, View<const float>, AnyConstView, AnyView,
                                AnyView, AnyView) {
    use(cpu::attention_grad_workspace_bytes(cpu::longest_of(segments), shape.head_size, threads_));
    count(Part::attention, 5 * attention_product_operations(shape, segments), 0);
}

void DryKernels::add_lookup_grad(View<const float> d_output, const LookupIndex& index, const HeldRows&,
                                 const SumView&) {
    count(Part::elementwise, 0, static_cast<double>(bytes_in_all(AnyConstView(d_output))));
    use(cpu::lookup_grad_workspace_bytes(static_cast<int64_t>(index.entries.size())));
}

// The update of the same elements, which follows, is counted here too: weights and moments are read and written.
double DryKernels::squared_norm(const MeanView& gradient) {
    constexpr int64_t kBytesOfUpdate = 2 * (4 + 4 + 4);
    count(Part::optimizer, 0, static_cast<double>(gradient.elements * (2 * bytes_of(gradient.kind) + kBytesOfUpdate)));
    use(cpu::squared_norm_workspace_bytes(gradient.elements));
    return 0;
}

// What follows takes no scratch, and its time is that of its bytes.

void DryKernels::rms_norm(AnyConstView input, View<const float>, float, AnyView output, View<float>) {
    count(Part::norms, 0, static_cast<double>(bytes_in_all(input, AnyConstView(output))));
}

void DryKernels::rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float>, View<const float>,
                                     AnyView d_input) {
    count(Part::norms, 0, static_cast<double>(bytes_in_all(d_output, input, AnyConstView(d_input))));
}

void DryKernels::add_rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float>,
                                         View<const float>, View<float> d_input) {
    count(Part::norms, 0, static_cast<double>(bytes_in_all(d_output, input) + 2 * bytes_in(AnyConstView(d_input))));
}

void DryKernels::layer_norm(View<const float> input, View<const float>, View<const float>, float, AnyView output,
                            View<float>, View<float>) {
    count(Part::norms, 0, static_cast<double>(bytes_in_all(AnyConstView(input), AnyConstView(output))));
}

void DryKernels::add_layer_norm_input_grad(AnyConstView d_output, View<const float> input, View<const float>,
                                           View<const float>, View<const float>, View<float> d_input) {
    count(Part::norms, 0,
          static_cast<double>(bytes_in_all(d_output, AnyConstView(input)) + 2 * bytes_in(AnyConstView(d_input))));
}

void DryKernels::rope(AnyView heads, View<const int32_t>, View<const float>) {
    count(Part::attention, 0, static_cast<double>(2 * bytes_in(AnyConstView(heads))));
}

void DryKernels::rope_grad(AnyView d_heads, View<const int32_t>, View<const float>) {
    count(Part::attention, 0, static_cast<double>(2 * bytes_in(AnyConstView(d_heads))));
}

void DryKernels::gelu(AnyConstView input, AnyView output) {
    count(Part::elementwise, 0, static_cast<double>(bytes_in_all(input, AnyConstView(output))));
}

void DryKernels::gelu_grad(AnyConstView d_output, AnyConstView input, AnyView d_input) {
    count(Part::elementwise, 0, static_cast<double>(bytes_in_all(d_output, input, AnyConstView(d_input))));
}

void DryKernels::swiglu(AnyConstView gate_up, AnyView output) {
    count(Part::elementwise, 0, static_cast<double>(bytes_in_all(gate_up, AnyConstView(output))));
}

void DryKernels::swiglu_grad(AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up) {
    count(Part::elementwise, 0, static_cast<double>(bytes_in_all(d_output, gate_up, AnyConstView(d_gate_up))));
}

void DryKernels::embed(View<const int32_t>, View<const float>, View<const int32_t>, View<const float>, const Dropout&,
                       View<float> output) {
    count(Part::elementwise, 0, static_cast<double>(2 * bytes_in(AnyConstView(output))));
}

void DryKernels::cross_entropy(View<float> logits, View<const int32_t>, View<float>, AnyView d_logits) {
    count(Part::loss_head, 0, static_cast<double>(bytes_in_all(AnyConstView(logits), AnyConstView(d_logits))));
}

void DryKernels::cast(View<const float> input, const Dropout&, AnyView output) {
    count(Part::elementwise, 0, static_cast<double>(bytes_in_all(AnyConstView(input), AnyConstView(output))));
}

// Counted where they happen or too small to count.

void DryKernels::adamw(const MeanView&, const AdamWSettings&, View<float>, View<float>, View<float>, AnyView) {}
void DryKernels::sgd(const MeanView&, const SgdSettings&, View<float>, View<float>, AnyView) {}
void DryKernels::adamw_8bit(const MeanView&, const AdamWSettings&, View<float>, const CodedMoments&, AnyView) {}
void DryKernels::sgd_8bit(const MeanView&, const SgdSettings&, View<float>, const CodedMoments&, AnyView) {}
void DryKernels::fill_zero(std::span<std::byte>) {}
void DryKernels::copy_in(std::span<const std::byte>, std::span<std::byte>) {}
void DryKernels::copy_out(View<const float>, std::span<float>) {}

std::unique_ptr<DryKernels> make_dry_kernels(Arena& arena, int threads, int64_t vocabulary) {
    return std::make_unique<DryKernels>(arena, threads, vocabulary);
}

}  // namespace accrue
