#pragma once

#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "accrue/kernels/kernels.h"
#include "accrue/kernels/part.h"

namespace accrue {

// Hands each operation on to other kernels and adds its wall time to the part that it belongs to. Costs two looks at the
// clock for each call. For kernels that are done when a call returns.
class TimedKernels : public Kernels {
public:
    TimedKernels(Kernels& inner, int64_t vocabulary) : inner_(inner), vocabulary_(vocabulary) {}

    // Seconds by part, and of each call in their order, since the last reset.
    using Seconds = std::array<double, kParts>;
    [[nodiscard]] const Seconds& seconds() const { return seconds_; }
    [[nodiscard]] std::span<const double> call_seconds() const { return call_seconds_; }
    [[nodiscard]] int64_t calls() const { return std::ssize(call_seconds_); }
    void reset();

    [[nodiscard]] std::string description() const override { return inner_.description(); }
    [[nodiscard]] Arena& arena() override { return inner_.arena(); }

    void linear(AnyConstView input, const WeightView& weight, View<const float> bias, AnyView output) override;
    void linear_residual(AnyConstView input, const WeightView& weight, View<const float> bias, const Dropout& dropout,
                         View<const float> residual, View<float> output) override;
    void linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView d_input) override;
    void add_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout, const SumView& d_weight,
                                const HeldRows& held) override;
    void start_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                  const SumView& d_weight, const HeldRows& held) override;
    [[nodiscard]] double started_share() const override { return inner_.started_share(); }
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
    // Measures from its construction to its end.
    class Watch {
    public:
        Watch(TimedKernels& kernels, Part part) : kernels_(kernels), part_(part) {}
        ~Watch();
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        // A share of the time belongs to another part.
        void give(Part part, double share) {
            other_part_ = part;
            other_share_ = share;
        }

    private:
        TimedKernels& kernels_;
        Part part_;
        Part other_part_ = part_;
        double other_share_ = 0;
        std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    };

    [[nodiscard]] Part part_of_product(int64_t outputs, Part otherwise) const {
        return accrue::part_of_product(outputs, vocabulary_, otherwise);
    }

    Kernels& inner_;
    int64_t vocabulary_;
    Seconds seconds_{};
    std::vector<double> call_seconds_;
};

}  // namespace accrue
