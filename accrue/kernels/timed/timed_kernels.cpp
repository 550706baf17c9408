#include "accrue/kernels/timed/timed_kernels.h"

namespace accrue {

std::string_view name_of(Part part) {
    constexpr std::array<std::string_view, kParts> kNames = {"products_forward", "products_input", "products_weight",
                                                             "attention",        "loss_head",      "norms",
                                                             "elementwise",      "optimizer"};
    return kNames[static_cast<size_t>(part)];
}

TimedKernels::Watch::~Watch() {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    kernels_.seconds_[static_cast<size_t>(part_)] += (1 - other_share_) * passed.count();
    kernels_.seconds_[static_cast<size_t>(other_part_)] += other_share_ * passed.count();
    kernels_.call_seconds_.push_back(passed.count());
}

void TimedKernels::reset() {
    seconds_ = {};
    call_seconds_.clear();
}

void TimedKernels::linear(AnyConstView input, const WeightView& weight, View<const float> bias, AnyView output) {
    const Watch watch(*this, part_of_product(weight.out(), Part::products_forward));
    inner_.linear(input, weight, bias, output);
}

void TimedKernels::linear_residual(AnyConstView input, const WeightView& weight, View<const float> bias,
                                   const Dropout& dropout, View<const float> residual, View<float> output) {
    const Watch watch(*this, Part::products_forward);
    inner_.linear_residual(input, weight, bias, dropout, residual, output);
}

void TimedKernels::linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView d_input) {
    Watch watch(*this, part_of_product(weight.out(), Part::products_input));
    inner_.linear_input_grad(d_output, weight, d_input);
    watch.give(part_of_product(weight.out(), Part::products_weight), inner_.started_share());
}

void TimedKernels::add_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                          const SumView& d_weight, const HeldRows& held) {
    const Watch watch(*this, part_of_product(d_output.columns, Part::products_weight));
    inner_.add_linear_weight_grad(d_output, input, layout, d_weight, held);
}

void TimedKernels::start_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                            const SumView& d_weight, const HeldRows& held) {
    const Watch watch(*this, part_of_product(d_output.columns, Part::products_weight));
    inner_.start_linear_weight_grad(d_output, input, layout, d_weight, held);
}

void TimedKernels::add_bias_grad(AnyConstView d_output, const SumView& d_bias) {
    const Watch watch(*this, Part::elementwise);
    inner_.add_bias_grad(d_output, d_bias);
}

void TimedKernels::rms_norm(AnyConstView input, View<const float> gain, float epsilon, AnyView output,
                            View<float> inverse_rms) {
    const Watch watch(*this, Part::norms);
    inner_.rms_norm(input, gain, epsilon, output, inverse_rms);
}

void TimedKernels::rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                       View<const float> inverse_rms, AnyView d_input) {
    const Watch watch(*this, Part::norms);
    inner_.rms_norm_input_grad(d_output, input, gain, inverse_rms, d_input);
}

void TimedKernels::add_rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                           View<const float> inverse_rms, View<float> d_input) {
    const Watch watch(*this, Part::norms);
    inner_.add_rms_norm_input_grad(d_output, input, gain, inverse_rms, d_input);
}

void TimedKernels::add_rms_norm_gain_grad(AnyConstView d_output, AnyConstView input, View<const float> inverse_rms,
                                          const SumView& d_gain) {
    const Watch watch(*this, Part::norms);
    inner_.add_rms_norm_gain_grad(d_output, input, inverse_rms, d_gain);
}

void TimedKernels::layer_norm(View<const float> input, View<const float> gain, View<const float> bias, float epsilon,
                              AnyView output, View<float> mean, View<float> inverse_deviation) {
    const Watch watch(*this, Part::norms);
    inner_.layer_norm(input, gain, bias, epsilon, output, mean, inverse_deviation);
}

void TimedKernels::add_layer_norm_input_grad(AnyConstView d_output, View<const float> input, View<const float> gain,
                                             View<const float> mean, View<const float> inverse_deviation,
                                             View<float> d_input) {
    const Watch watch(*this, Part::norms);
    inner_.add_layer_norm_input_grad(d_output, input, gain, mean, inverse_deviation, d_input);
}

void TimedKernels::add_layer_norm_gain_grad(AnyConstView d_output, View<const float> input, View<const float> mean,
                                            View<const float> inverse_deviation, const SumView& d_gain) {
    const Watch watch(*this, Part::norms);
    inner_.add_layer_norm_gain_grad(d_output, input, mean, inverse_deviation, d_gain);
}

void TimedKernels::rope(AnyView heads, View<const int32_t> positions, View<const float> table) {
    const Watch watch(*this, Part::attention);
    inner_.rope(heads, positions, table);
}

void TimedKernels::rope_grad(AnyView d_heads, View<const int32_t> positions, View<const float> table) {
    const Watch watch(*this, Part::attention);
    inner_.rope_grad(d_heads, positions, table);
}

void TimedKernels::attention(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query,
                             AnyConstView key, AnyConstView value, AnyView output, View<float> log_sum) {
    const Watch watch(*this, Part::attention);
    inner_.attention(shape, segments, query, key, value, output, log_sum);
}

void TimedKernels::attention_grad(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query,
                                  AnyConstView key, AnyConstView value, AnyConstView output, View<const float> log_sum,
                                  AnyConstView d_output, AnyView d_query, AnyView d_key, AnyView d_value) {
    const Watch watch(*this, Part::attention);
    inner_.attention_grad(shape, segments, query, key, value, output, log_sum, d_output, d_query, d_key, d_value);
}

void TimedKernels::gelu(AnyConstView input, AnyView output) {
    const Watch watch(*this, Part::elementwise);
    inner_.gelu(input, output);
}

void TimedKernels::gelu_grad(AnyConstView d_output, AnyConstView input, AnyView d_input) {
    const Watch watch(*this, Part::elementwise);
    inner_.gelu_grad(d_output, input, d_input);
}

void TimedKernels::swiglu(AnyConstView gate_up, AnyView output) {
    const Watch watch(*this, Part::elementwise);
    inner_.swiglu(gate_up, output);
}

void TimedKernels::swiglu_grad(AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up) {
    const Watch watch(*this, Part::elementwise);
    inner_.swiglu_grad(d_output, gate_up, d_gate_up);
}

void TimedKernels::embed(View<const int32_t> tokens, View<const float> table, View<const int32_t> positions,
                         View<const float> position_table, const Dropout& dropout, View<float> output) {
    const Watch watch(*this, Part::elementwise);
    inner_.embed(tokens, table, positions, position_table, dropout, output);
}

void TimedKernels::add_lookup_grad(View<const float> d_output, const LookupIndex& index, const HeldRows& held,
                                   const SumView& d_table) {
    const Watch watch(*this, Part::elementwise);
    inner_.add_lookup_grad(d_output, index, held, d_table);
}

void TimedKernels::cross_entropy(View<float> logits, View<const int32_t> targets, View<float> losses,
                                 AnyView d_logits) {
    const Watch watch(*this, Part::loss_head);
    inner_.cross_entropy(logits, targets, losses, d_logits);
}

double TimedKernels::squared_norm(const MeanView& gradient) {
    const Watch watch(*this, Part::optimizer);
    return inner_.squared_norm(gradient);
}

void TimedKernels::adamw(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                         View<float> first_moment, View<float> second_moment, AnyView copy) {
    const Watch watch(*this, Part::optimizer);
    inner_.adamw(gradient, settings, weights, first_moment, second_moment, copy);
}

void TimedKernels::sgd(const MeanView& gradient, const SgdSettings& settings, View<float> weights, View<float> velocity,
                       AnyView copy) {
    const Watch watch(*this, Part::optimizer);
    inner_.sgd(gradient, settings, weights, velocity, copy);
}

void TimedKernels::adamw_8bit(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                              const CodedMoments& moments, AnyView copy) {
    const Watch watch(*this, Part::optimizer);
    inner_.adamw_8bit(gradient, settings, weights, moments, copy);
}

void TimedKernels::sgd_8bit(const MeanView& gradient, const SgdSettings& settings, View<float> weights,
                            const CodedMoments& moments, AnyView copy) {
    const Watch watch(*this, Part::optimizer);
    inner_.sgd_8bit(gradient, settings, weights, moments, copy);
}

void TimedKernels::cast(View<const float> input, const Dropout& dropout, AnyView output) {
    const Watch watch(*this, Part::elementwise);
    inner_.cast(input, dropout, output);
}

void TimedKernels::fill_zero(std::span<std::byte> memory) {
    const Watch watch(*this, Part::elementwise);
    inner_.fill_zero(memory);
}

void TimedKernels::copy_in(std::span<const std::byte> host, std::span<std::byte> output) {
    const Watch watch(*this, Part::elementwise);
    inner_.copy_in(host, output);
}

void TimedKernels::copy_out(View<const float> values, std::span<float> host) {
    const Watch watch(*this, Part::elementwise);
    inner_.copy_out(values, host);
}

}  // namespace accrue
