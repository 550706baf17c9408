#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "accrue/base/pool.h"
#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/kernels/kernels.h"
#include "accrue/kernels/sum_view.h"
#include "accrue/tensor/arena.h"
#include "accrue/tensor/view.h"

// What the operations of kernels/operations.h need beside matrix products, for CPUs, a grain at a time. Scratch memory is
// what kernels/cpu/elementwise_plan.h takes.
namespace accrue::cpu {

// norms.cpp
void rms_norm(const Context& context, AnyConstView input, View<const float> gain, float epsilon, AnyView output,
              View<float> inverse_rms);
void rms_norm_input_grad(const Context& context, AnyConstView d_output, AnyConstView input, View<const float> gain,
                         View<const float> inverse_rms, AnyView d_input);
void add_rms_norm_input_grad(const Context& context, AnyConstView d_output, AnyConstView input, View<const float> gain,
                             View<const float> inverse_rms, View<float> d_input);
void layer_norm(const Context& context, View<const float> input, View<const float> gain, View<const float> bias,
                float epsilon, AnyView output, View<float> mean, View<float> inverse_deviation);
void add_layer_norm_input_grad(const Context& context, AnyConstView d_output, View<const float> input,
                               View<const float> gain, View<const float> mean, View<const float> inverse_deviation,
                               View<float> d_input);

// column_sums.cpp
void add_bias_grad(const Context& context, AnyConstView d_output, const SumView& d_bias);
void add_rms_norm_gain_grad(const Context& context, AnyConstView d_output, AnyConstView input,
                            View<const float> inverse_rms, const SumView& d_gain);
void add_layer_norm_gain_grad(const Context& context, AnyConstView d_output, View<const float> input,
                              View<const float> mean, View<const float> inverse_deviation, const SumView& d_gain);

// As the gradient of one grain; values lie without gaps.
void add_gradient(const Context& context, View<const float> values, const SumView& sum);

// rope.cpp
void rope(const Context& context, AnyView heads, View<const int32_t> positions, View<const float> table);
void rope_grad(const Context& context, AnyView d_heads, View<const int32_t> positions, View<const float> table);

// attention.cpp
void attention(const Context& context, const AttentionShape& shape, std::span<const Segment> segments,
               AnyConstView query, AnyConstView key, AnyConstView value, AnyView output, View<float> log_sum);
// attention_grad.cpp
void attention_grad(const Context& context, const AttentionShape& shape, std::span<const Segment> segments,
                    AnyConstView query, AnyConstView key, AnyConstView value, AnyConstView output,
                    View<const float> log_sum, AnyConstView d_output, AnyView d_query, AnyView d_key, AnyView d_value);

// activations.cpp
void gelu(const Context& context, AnyConstView input, AnyView output);
void gelu_grad(const Context& context, AnyConstView d_output, AnyConstView input, AnyView d_input);
void swiglu(const Context& context, AnyConstView gate_up, AnyView output);
void swiglu_grad(const Context& context, AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up);

// lookup.cpp; places of the index are rows of d_output
void embed(const Context& context, View<const int32_t> tokens, View<const float> table, View<const int32_t> positions,
           View<const float> position_table, const Dropout& dropout, View<float> output);
void add_lookup_grad(const Context& context, View<const float> d_output, const LookupIndex& index, const HeldRows& held,
                     const SumView& d_table);

// loss.cpp
void cross_entropy(const Context& context, View<float> logits, View<const int32_t> targets, View<float> losses,
                   AnyView d_logits);

// optimizer.cpp
[[nodiscard]] double squared_norm(const Context& context, const MeanView& gradient);
void adamw(const Context& context, const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
           View<float> first_moment, View<float> second_moment, AnyView copy);
void sgd(const Context& context, const MeanView& gradient, const SgdSettings& settings, View<float> weights,
         View<float> velocity, AnyView copy);
// optimizer_8bit.cpp
void adamw_8bit(const Context& context, const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                const CodedMoments& moments, AnyView copy);
void sgd_8bit(const Context& context, const MeanView& gradient, const SgdSettings& settings, View<float> weights,
              const CodedMoments& moments, AnyView copy);

// moving.cpp
void cast(const Context& context, View<const float> input, const Dropout& dropout, AnyView output);
void fill_zero(const Context& context, std::span<std::byte> memory);
void add_sums(const Context& context, View<const int64_t> others, View<int64_t> sums);

}  // namespace accrue::cpu
