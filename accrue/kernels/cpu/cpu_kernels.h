#pragma once

#include <memory>

#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/kernels/cpu/product.h"
#include "accrue/kernels/kernels.h"

namespace accrue {

// Threads and vector instructions: hands every operation on to cpu/linear.h or cpu/elementwise.h.
class CpuKernels final : public Kernels {
public:
    // The pool and the arena must outlive it.
    CpuKernels(Pool& pool, Arena& arena, cpu::InstructionSet set) : context_{pool, arena, set} {}

    [[nodiscard]] std::string description() const override;
    [[nodiscard]] Arena& arena() override { return context_.arena; }

    void linear(AnyConstView input, const WeightView& weight, View<const float> bias, AnyView output) override;
    void linear_residual(AnyConstView input, const WeightView& weight, View<const float> bias, const Dropout& dropout,
                         View<const float> residual, View<float> output) override;
    void linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView d_input) override;
    void add_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout, const SumView& d_weight,
                                const HeldRows& held) override;
    void start_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                  const SumView& d_weight, const HeldRows& held) override;
    [[nodiscard]] double started_share() const override { return started_share_; }
    void add_bias_grad(AnyConstView d_output, const SumView& d_bias) override;
    void rms_norm(AnyConstView input, View<const float> gain, float epsilon, AnyView output,
                  View<float> inverse_rms) override;
    void rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                             View<const float> inverse_rms, AnyView d_input) override;
    void add_rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                 View<const float> inverse_rms, View<float> d_input) override;
    void add_rms_norm_gain_grad(AnyConstView d_output, AnyConstView input, View<const float> inverse_rms,
                                const SumView& d_gain) override;
    void layer_norm(View<const float> input, View<const float> gain, View<const float> bias, float epsilon,
                    AnyView output, View<float> mean, View<float> inverse_deviation) override;
    void add_layer_norm_input_grad(AnyConstView d_output, View<const float> input, View<const float> gain,
                                   View<const float> mean, View<const float> inverse_deviation,
                                   View<float> d_input) override;
    void add_layer_norm_gain_grad(AnyConstView d_output, View<const float> input, View<const float> mean,
                                  View<const float> inverse_deviation, const SumView& d_gain) override;
    void rope(AnyView heads, View<const int32_t> positions, View<const float> table) override;
    void rope_grad(AnyView d_heads, View<const int32_t> positions, View<const float> table) override;
    void attention(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query, AnyConstView key,
                   AnyConstView value, AnyView output, View<float> log_sum) override;
    void attention_grad(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query,
                        AnyConstView key, AnyConstView value, AnyConstView output, View<const float> log_sum,
                        AnyConstView d_output, AnyView d_query, AnyView d_key, AnyView d_value) override;
    void gelu(AnyConstView input, AnyView output) override;
    void gelu_grad(AnyConstView d_output, AnyConstView input, AnyView d_input) override;
    void swiglu(AnyConstView gate_up, AnyView output) override;
    void swiglu_grad(AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up) override;
    void embed(View<const int32_t> tokens, View<const float> table, View<const int32_t> positions,
               View<const float> position_table, const Dropout& dropout, View<float> output) override;
    void add_lookup_grad(View<const float> d_output, const LookupIndex& index, const HeldRows& held,
                         const SumView& d_table) override;
    void cross_entropy(View<float> logits, View<const int32_t> targets, View<float> losses, AnyView d_logits) override;
    [[nodiscard]] double squared_norm(const MeanView& gradient) override;
    void adamw(const MeanView& gradient, const AdamWSettings& settings, View<float> weights, View<float> first_moment,
               View<float> second_moment, AnyView copy) override;
    void sgd(const MeanView& gradient, const SgdSettings& settings, View<float> weights, View<float> velocity,
             AnyView copy) override;
    void adamw_8bit(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                    const CodedMoments& moments, AnyView copy) override;
    void sgd_8bit(const MeanView& gradient, const SgdSettings& settings, View<float> weights,
                  const CodedMoments& moments, AnyView copy) override;
    void cast(View<const float> input, const Dropout& dropout, AnyView output) override;
    void fill_zero(std::span<std::byte> memory) override;
    void copy_in(std::span<const std::byte> host, std::span<std::byte> output) override;
    void copy_out(View<const float> values, std::span<float> host) override;

private:
    // For calls that do not take part in what was started: runs that first.
    [[nodiscard]] const cpu::Context& context();

    cpu::Context context_;
    cpu::StartedProducts started_;
    double started_share_ = 0;
};

}  // namespace accrue
