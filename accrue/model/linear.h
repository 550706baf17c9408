#pragma once

#include "accrue/kernels/kernels.h"
#include "accrue/model/model.h"
#include "accrue/model/parameters.h"

namespace accrue {

// What every layer needs to compute: the device, the weights, and for backward the grains and where their gradients go.
struct Pass {
    Kernels& kernels;
    const ParameterList& parameters;
    const Weights& weights;
    std::span<const TokenBatch::Grain> grains;
    GradientSink* sink = nullptr;

    [[nodiscard]] WeightView weight_of(const LinearParameters& linear) const;
    [[nodiscard]] View<const float> bias_of(const LinearParameters& linear) const;  // empty = none
    [[nodiscard]] View<const float> master_of(int64_t parameter) const;
};

// Adds the gradients of a product's weights and biases, grain by grain.
void linear_weight_backward(const Pass& pass, const LinearParameters& linear, AnyConstView d_output,
                            AnyConstView input);

// A norm's output and what its backward pass needs besides its input.
struct NormSaved {
    Leased<float> mean;           // layer norm only
    Leased<float> inverse_scale;  // 1 / deviation, or 1 / root mean square
    LeasedAny output;
};

[[nodiscard]] NormSaved norm_forward(const Pass& pass, const NormParameters& norm, float epsilon, DType dtype,
                                     View<const float> input);
// d_input is added to (it is the residual stream's gradient); gain and bias gradients go to the sink.
void norm_backward(const Pass& pass, const NormParameters& norm, const NormSaved& saved, View<const float> input,
                   AnyConstView d_output, View<float> d_input);

}  // namespace accrue
