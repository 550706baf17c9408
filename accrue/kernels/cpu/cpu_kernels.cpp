#include "accrue/kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <utility>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/linear.h"

namespace accrue {

const cpu::Context& CpuKernels::context() {
    cpu::run(context_, std::exchange(started_, {}));
    return context_;
}

std::string CpuKernels::description() const {
    const int threads = context_.pool.threads();
    return cat("cpu, ", threads, threads == 1 ? " thread, " : " threads, ", cpu::title_of(context_.set));
}

void CpuKernels::linear(AnyConstView input, const WeightView& weight, View<const float> bias, AnyView output) {
    cpu::linear(context(), input, weight, bias, output);
}

void CpuKernels::linear_residual(AnyConstView input, const WeightView& weight, View<const float> bias,
                                 const Dropout& dropout, View<const float> residual, View<float> output) {
    cpu::linear_residual(context(), input, weight, bias, dropout, residual, output);
}

void CpuKernels::linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView d_input) {
    started_share_ = cpu::linear_input_grad(context_, d_output, weight, d_input, std::exchange(started_, {}));
}

void CpuKernels::add_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                        const SumView& d_weight, const HeldRows& held) {
    cpu::add_linear_weight_grad(context(), d_output, input, layout, d_weight, held);
}

void CpuKernels::start_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                          const SumView& d_weight, const HeldRows& held) {
    const bool same_sum =
        std::ranges::any_of(started_, [&](const auto& product) { return product->sum() == d_weight.data; });
    const bool together = !same_sum && started_.size() < cpu::kMostStartedProducts;
    started_.push_back(
        cpu::start_linear_weight_grad(together ? context_ : context(), d_output, input, layout, d_weight, held));
}

void CpuKernels::add_bias_grad(AnyConstView d_output, const SumView& d_bias) {
    cpu::add_bias_grad(context(), d_output, d_bias);
}

void CpuKernels::rms_norm(AnyConstView input, View<const float> gain, float epsilon, AnyView output,
                          View<float> inverse_rms) {
    cpu::rms_norm(context(), input, gain, epsilon, output, inverse_rms);
}

void CpuKernels::rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                     View<const float> inverse_rms, AnyView d_input) {
    cpu::rms_norm_input_grad(context(), d_output, input, gain, inverse_rms, d_input);
}

void CpuKernels::add_rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                         View<const float> inverse_rms, View<float> d_input) {
    cpu::add_rms_norm_input_grad(context(), d_output, input, gain, inverse_rms, d_input);
}

void CpuKernels::add_rms_norm_gain_grad(AnyConstView d_output, AnyConstView input, View<const float> inverse_rms,
                                        const SumView& d_gain) {
    cpu::add_rms_norm_gain_grad(context(), d_output, input, inverse_rms, d_gain);
}

void CpuKernels::layer_norm(View<const float> input, View<const float> gain, View<const float> bias, float epsilon,
                            AnyView output, View<float> mean, View<float> inverse_deviation) {
    cpu::layer_norm(context(), input, gain, bias, epsilon, output, mean, inverse_deviation);
}

void CpuKernels::add_layer_norm_input_grad(AnyConstView d_output, View<const float> input, View<const float> gain,
                                           View<const float> mean, View<const float> inverse_deviation,
                                           View<float> d_input) {
    cpu::add_layer_norm_input_grad(context(), d_output, input, gain, mean, inverse_deviation, d_input);
}

void CpuKernels::add_layer_norm_gain_grad(AnyConstView d_output, View<const float> input, View<const float> mean,
                                          View<const float> inverse_deviation, const SumView& d_gain) {
    cpu::add_layer_norm_gain_grad(context(), d_output, input, mean, inverse_deviation, d_gain);
}

void CpuKernels::rope(AnyView heads, View<const int32_t> positions, View<const float> table) {
    cpu::rope(context(), heads, positions, table);
}

void CpuKernels::rope_grad(AnyView d_heads, View<const int32_t> positions, View<const float> table) {
    cpu::rope_grad(context(), d_heads, positions, table);
}

void CpuKernels::attention(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query,
                           AnyConstView key, AnyConstView value, AnyView output, View<float> log_sum) {
    cpu::attention(context(), shape, segments, query, key, value, output, log_sum);
}

void CpuKernels::attention_grad(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query,
                                AnyConstView key, AnyConstView value, AnyConstView output, View<const float> log_sum,
                                AnyConstView d_output, AnyView d_query, AnyView d_key, AnyView d_value) {
    cpu::attention_grad(context(), shape, segments, query, key, value, output, log_sum, d_output, d_query, d_key,
                        d_value);
}

void CpuKernels::gelu(AnyConstView input, AnyView output) {
    cpu::gelu(context(), input, output);
}

void CpuKernels::gelu_grad(AnyConstView d_output, AnyConstView input, AnyView d_input) {
    cpu::gelu_grad(context(), d_output, input, d_input);
}

void CpuKernels::swiglu(AnyConstView gate_up, AnyView output) {
    cpu::swiglu(context(), gate_up, output);
}

void CpuKernels::swiglu_grad(AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up) {
    cpu::swiglu_grad(context(), d_output, gate_up, d_gate_up);
}

void CpuKernels::embed(View<const int32_t> tokens, View<const float> table, View<const int32_t> positions,
                       View<const float> position_table, const Dropout& dropout, View<float> output) {
    cpu::embed(context(), tokens, table, positions, position_table, dropout, output);
}

void CpuKernels::add_lookup_grad(View<const float> d_output, const LookupIndex& index, const HeldRows& held,
                                 const SumView& d_table) {
    cpu::add_lookup_grad(context(), d_output, index, held, d_table);
}

void CpuKernels::cross_entropy(View<float> logits, View<const int32_t> targets, View<float> losses, AnyView d_logits) {
    cpu::cross_entropy(context(), logits, targets, losses, d_logits);
}

double CpuKernels::squared_norm(const MeanView& gradient) {
    return cpu::squared_norm(context(), gradient);
}

void CpuKernels::adamw(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                       View<float> first_moment, View<float> second_moment, AnyView copy) {
    cpu::adamw(context(), gradient, settings, weights, first_moment, second_moment, copy);
}

void CpuKernels::sgd(const MeanView& gradient, const SgdSettings& settings, View<float> weights, View<float> velocity,
                     AnyView copy) {
    cpu::sgd(context(), gradient, settings, weights, velocity, copy);
}

void CpuKernels::adamw_8bit(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                            const CodedMoments& moments, AnyView copy) {
    cpu::adamw_8bit(context(), gradient, settings, weights, moments, copy);
}

void CpuKernels::sgd_8bit(const MeanView& gradient, const SgdSettings& settings, View<float> weights,
                          const CodedMoments& moments, AnyView copy) {
    cpu::sgd_8bit(context(), gradient, settings, weights, moments, copy);
}

void CpuKernels::cast(View<const float> input, const Dropout& dropout, AnyView output) {
    cpu::cast(context(), input, dropout, output);
}

void CpuKernels::fill_zero(std::span<std::byte> memory) {
    cpu::fill_zero(context(), memory);
}

void CpuKernels::copy_in(std::span<const std::byte> host, std::span<std::byte> output) {
    cpu::copy_in(context(), host, output);
}

void CpuKernels::copy_out(View<const float> values, std::span<float> host) {
    cpu::copy_out(context(), values, host);
}

std::unique_ptr<Kernels> make_cpu_kernels(Pool& pool, Arena& arena, const std::string& instruction_set) {
    return std::make_unique<CpuKernels>(pool, arena, cpu::instruction_set_named(instruction_set));
}

}  // namespace accrue
