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
    std::span<const int64_t> grains = {};  // their numbers, and which rows are theirs
    std::span<const RowRange> grain_rows = {};
    GradientSink* sink = nullptr;

    [[nodiscard]] WeightView weight_of(const LinearParameters& linear) const;
    [[nodiscard]] View<const float> bias_of(const LinearParameters& linear) const;    // empty = none
    [[nodiscard]] AnyConstView narrow_bias_of(const LinearParameters& linear) const;  // empty = none, or no copy
    [[nodiscard]] View<const float> master_of(int64_t parameter) const;
    [[nodiscard]] bool trains(int64_t parameter) const { return parameters[parameter].gradient.has_value(); }
    // Where the grains' gradients of a parameter go, one for each; none where it is frozen.
    [[nodiscard]] std::vector<SumView> sums_of(int64_t parameter) const;
    // The same of the bias of a product that is one tensor; none where it has no bias either.
    [[nodiscard]] std::vector<SumView> bias_sums_of(const LinearParameters& linear) const;
};

// The gradient of a product's output, and whether whoever wrote it has summed it into the gradients of the biases.
struct OutputGradient {
    AnyConstView view;
    bool is_summed = false;
};

// The gradients of a product's weights, biases and input.
void linear_backward(const Pass& pass, const LinearParameters& linear, const OutputGradient& d_output,
                     AnyConstView input, AnyView d_input);

// Memory for a result: where it is kept, or some that lasts as long as this.
class ResultBuffer {
public:
    ResultBuffer(Arena& arena, const LeasedAny& kept, DType dtype, int64_t rows, int64_t columns);
    [[nodiscard]] AnyView view() const { return view_; }

private:
    LeasedAny own_;
    AnyView view_;
};

// A norm's numbers per row, and its output where that is kept.
struct NormSaved {
    Leased<float> mean;           // layer norm only
    Leased<float> inverse_scale;  // 1 / deviation, or 1 / root mean square
    LeasedAny output;             // empty = dropped: the input and these numbers give it again
};

// Memory for a norm of so many rows, its output left out.
[[nodiscard]] NormSaved lease_norm(Arena& arena, const NormParameters& norm, int64_t rows);
// The same with its output.
[[nodiscard]] NormSaved lease_norm(Arena& arena, const NormParameters& norm, DType dtype, int64_t rows, int64_t width);

// `output` gets the normed input, `saved` the numbers per row. Done again it gives the same bits.
void norm_forward(const Pass& pass, const NormParameters& norm, float epsilon, View<const float> input,
                  const NormSaved& saved, AnyView output);
// The gradient of the residual stream on its way back, and the same rounded to the dtype of products, where the device wants
// it (traits): whoever changes the one renews the other.
struct StreamBack {
    View<float> exact;
    AnyView rounded = {};  // empty = nobody wants it
    // Whoever rounds it also sums it into the gradient of the bias of the product whose output was last added to the stream.
    bool is_summed = false;
};

// The stream's gradient is added to; gain and bias gradients go to the sink. `before`: the product whose output was last added
// to the input; nothing: it is not one of a block.
void norm_backward(const Pass& pass, const NormParameters& norm, const NormSaved& saved, View<const float> input,
                   AnyConstView d_output, const StreamBack& d_stream, const LinearParameters* before);

}  // namespace accrue
