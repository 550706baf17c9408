#pragma once

#include <span>

#include "accrue/kernels/operation/basics.h"

namespace accrue::op {

// Each run of `width` = gain.columns columns is normalised by itself (a head, or the whole row):
// output = input * inverse_rms * gain, inverse_rms = 1 / sqrt(mean(input^2) + epsilon), one per run: [rows, columns /
// width].
struct RmsNorm {
    static constexpr std::string_view kName = "rms_norm";
    AnyConstView input;
    View<const float> gain;
    float epsilon = 0;
    AnyView output;
    View<float> inverse_rms;

    [[nodiscard]] static Part part() { return Part::norms; }
    void check() const;
    void count(WorkByPart& work) const;
};

// output = (input - mean) * inverse_deviation * gain + bias, over whole rows; mean and inverse_deviation [rows, 1].
struct LayerNorm {
    static constexpr std::string_view kName = "layer_norm";
    View<const float> input;
    View<const float> gain;
    View<const float> bias;
    float epsilon = 0;
    AnyView output;
    View<float> mean;
    View<float> inverse_deviation;

    [[nodiscard]] static Part part() { return Part::norms; }
    void check() const;
    void count(WorkByPart& work) const;
};

// The backward pass of RmsNorm, for all grains of a micro-batch. With g = d_output * gain and x = input * inverse_rms,
// over each run:
//   d_gain[c] += sum over the grain's r (and over runs) of d_output * x, for each grain, in double; no sums = frozen
//   d = inverse_rms * (g - x * mean(g * x)), which d_input gets, or d_stream has added; one of them is empty
//   copy_sums[c] += sum over the grain's r of copy[r, c], for each grain; no sums = nobody wants them. The same bits as
//   LinearBackward's gradient of a bias, were its d_output the copy.
struct RmsNormBackward {
    static constexpr std::string_view kName = "rms_norm_backward";
    AnyConstView d_output;
    AnyConstView input;
    View<const float> gain;
    View<const float> inverse_rms;
    AnyView d_input;
    View<float> d_stream;
    std::span<const RowRange> grains;
    std::span<const SumView> d_gain;
    AnyView copy = {};  // where not empty: gets the new d_stream, rounded
    std::span<const SumView> copy_sums = {};

    [[nodiscard]] static Part part() { return Part::norms; }
    void check() const;
    void count(WorkByPart& work) const;
};

// The backward pass of LayerNorm, for all grains of a micro-batch. With g = d_output * gain and x the normalised input:
//   d_gain[c] += sum over the grain's r of d_output * x, d_bias[c] += sum of d_output, for each grain, in double
//   d_stream += inverse_deviation * (g - mean(g) - x * mean(g * x))
//   copy_sums as those of RmsNormBackward
struct LayerNormBackward {
    static constexpr std::string_view kName = "layer_norm_backward";
    AnyConstView d_output;
    View<const float> input;
    View<const float> gain;
    View<const float> mean;
    View<const float> inverse_deviation;
    View<float> d_stream;
    std::span<const RowRange> grains;
    std::span<const SumView> d_gain;
    std::span<const SumView> d_bias;
    AnyView copy = {};  // where not empty: gets the new d_stream, rounded
    std::span<const SumView> copy_sums = {};

    [[nodiscard]] static Part part() { return Part::norms; }
    void check() const;
    void count(WorkByPart& work) const;
};

}  // namespace accrue::op
