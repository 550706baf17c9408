#pragma once

#include <algorithm>
#include <vector>

#include "accrue/kernels/kernels.h"
#include "accrue/kernels/part.h"

namespace accrue {

// Computes nothing and never touches the memory of a view, but takes from its arena what the cpu device would take, in
// the same order, and counts the work. A step that is run on it tells what the real one will need.
class DryKernels final : public Kernels {
public:
    // With a vocabulary, products with so many outputs count as the loss head's.
    DryKernels(Arena& arena, int threads, int64_t vocabulary)
        : arena_(arena), threads_(threads), vocabulary_(vocabulary) {}

    [[nodiscard]] std::string description() const override { return "dry, counts only"; }
    [[nodiscard]] Arena& arena() override { return arena_; }
    // Of products and attention; all else is not counted, because memory and not arithmetic sets its time.
    [[nodiscard]] int64_t floating_point_operations() const;
    // By part, since the last restart.
    [[nodiscard]] const WorkByPart& work() const { return work_; }

    // What the arena held at some moments since the last restart.
    struct Moments {
        std::vector<int64_t> at_attention;  // when attention ran forward, before the loss: one for each block
        int64_t before_loss = 0;            // when the last norm before the loss head ran
        int64_t at_loss = 0;                // when the first product of the loss head ran
        int64_t at_loss_peak = 0;           // the most while the loss head ran
        int64_t largest_scratch = 0;        // that one kernel took for itself
    };
    [[nodiscard]] const Moments& moments() const { return moments_; }
    void restart();

    void linear(AnyConstView input, const WeightView& weight, View<const float> bias, AnyView output) override;
    void linear_residual(AnyConstView input, const WeightView& weight, View<const float> bias, const Dropout& dropout,
                         View<const float> residual, View<float> output) override;
    void linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView d_input) override;
    void add_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout, const SumView& d_weight,
                                const HeldRows& held) override;
    void start_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                  const SumView& d_weight, const HeldRows& held) override;
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
    void count(Part part, double flops, double bytes);
    void count_product(Part part, int64_t rows, int64_t columns, int64_t depth, int64_t bytes);
    // Takes that many bytes and gives them back.
    void use(int64_t bytes);
    void note_moment(Part part);

    Arena& arena_;
    int threads_;
    int64_t vocabulary_;
    // A weight's gradient that waits for linear_input_grad, and what it keeps meanwhile.
    struct Started {
        const void* sum;
        Arena::Block scratch;
    };
    std::vector<Started> started_;
    WorkByPart work_{};
    Moments moments_;
};

// A device that stands in for the cpu device with that many threads.
[[nodiscard]] std::unique_ptr<DryKernels> make_dry_kernels(Arena& arena, int threads, int64_t vocabulary = 0);

}  // namespace accrue
