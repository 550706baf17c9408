#include "accrue/model/linear.h"

namespace accrue {

WeightView Pass::weight_of(const LinearParameters& linear) const {
    const Parameter& first = parameters[linear.parts.front().weight];
    const AnyConstView start = weights.compute.slice_columns(first.offset, first.elements());
    if (linear.layout == WeightLayout::out_in) {
        return {.matrix = {start.data, start.dtype, linear.out, linear.in}, .layout = linear.layout};
    }
    return {.matrix = {start.data, start.dtype, linear.in, linear.out}, .layout = linear.layout};
}

View<const float> Pass::bias_of(const LinearParameters& linear) const {
    const int64_t bias = linear.parts.front().bias;
    if (bias < 0) {
        return {};
    }
    return {weights.master_of(parameters, bias), 1, linear.out};
}

AnyConstView Pass::narrow_bias_of(const LinearParameters& linear) const {
    const int64_t bias = linear.parts.front().bias;
    if (bias < 0 || weights.compute.dtype == DType::fp32) {
        return {};
    }
    return weights.compute.slice_columns(parameters[bias].offset, linear.out);
}

View<const float> Pass::master_of(int64_t parameter) const {
    const Parameter& p = parameters[parameter];
    return {weights.master_of(parameters, parameter), p.rows(), p.columns()};
}

std::vector<SumView> Pass::sums_of(int64_t parameter) const {
    std::vector<SumView> sums;
    if (const auto& gradient = parameters[parameter].gradient) {
        for (const int64_t grain : grains) {
            sums.push_back(sink->sum_of(grain, gradient->tensor));
        }
    }
    return sums;
}

std::vector<SumView> Pass::bias_sums_of(const LinearParameters& linear) const {
    const int64_t bias = linear.parts.front().bias;
    return bias < 0 ? std::vector<SumView>() : sums_of(bias);
}

void linear_backward(const Pass& pass, const LinearParameters& linear, const OutputGradient& d_output,
                     AnyConstView input, AnyView d_input) {
    struct PartSums {
        std::vector<SumView> weight;
        std::vector<SumView> bias;
    };
    std::vector<PartSums> parts;
    for (const auto& part : linear.parts) {
        parts.push_back(
            {.weight = pass.sums_of(part.weight),
             .bias = part.bias < 0 || d_output.is_summed ? std::vector<SumView>() : pass.sums_of(part.bias)});
    }
    std::vector<op::LinearSums> sums;
    for (size_t part = 0; part < parts.size(); ++part) {
        sums.push_back({.first_output = linear.parts[part].first_output,
                        .outputs = linear.parts[part].outputs,
                        .weight = parts[part].weight,
                        .bias = parts[part].bias});
    }
    pass.kernels.run(op::LinearBackward{.d_output = d_output.view,
                                        .input = input,
                                        .weight = pass.weight_of(linear),
                                        .d_input = d_input,
                                        .grains = pass.grain_rows,
                                        .sums = sums});
}

ResultBuffer::ResultBuffer(Arena& arena, const LeasedAny& kept, DType dtype, int64_t rows, int64_t columns)
    : view_(kept.view) {
    if (view_.empty()) {
        own_ = take_any_matrix(arena, dtype, rows, columns);
        view_ = own_.view;
    }
}

NormSaved lease_norm(Arena& arena, const NormParameters& norm, int64_t rows) {
    return {.mean = norm.bias < 0 ? Leased<float>{} : take_matrix<float>(arena, rows, 1),
            .inverse_scale = take_matrix<float>(arena, rows, 1),
            .output = {}};
}

NormSaved lease_norm(Arena& arena, const NormParameters& norm, DType dtype, int64_t rows, int64_t width) {
    NormSaved saved = lease_norm(arena, norm, rows);
    saved.output = take_any_matrix(arena, dtype, rows, width);
    return saved;
}

void norm_forward(const Pass& pass, const NormParameters& norm, float epsilon, View<const float> input,
                  const NormSaved& saved, AnyView output) {
    if (norm.bias < 0) {
        pass.kernels.run(op::RmsNorm{.input = input,
                                     .gain = pass.master_of(norm.gain),
                                     .epsilon = epsilon,
                                     .output = output,
                                     .inverse_rms = saved.inverse_scale.view});
        return;
    }
    pass.kernels.run(op::LayerNorm{.input = input,
                                   .gain = pass.master_of(norm.gain),
                                   .bias = pass.master_of(norm.bias),
                                   .epsilon = epsilon,
                                   .output = output,
                                   .mean = saved.mean.view,
                                   .inverse_deviation = saved.inverse_scale.view});
}

void norm_backward(const Pass& pass, const NormParameters& norm, const NormSaved& saved, View<const float> input,
                   AnyConstView d_output, const StreamBack& d_stream, const LinearParameters* before) {
    const std::vector<SumView> d_gain = pass.sums_of(norm.gain);
    const std::vector<SumView> rounded_sums =
        d_stream.is_summed && before != nullptr ? pass.bias_sums_of(*before) : std::vector<SumView>();
    if (norm.bias < 0) {
        pass.kernels.run(op::RmsNormBackward{.d_output = d_output,
                                             .input = input,
                                             .gain = pass.master_of(norm.gain),
                                             .inverse_rms = saved.inverse_scale.view,
                                             .d_input = {},
                                             .d_stream = d_stream.exact,
                                             .grains = pass.grain_rows,
                                             .d_gain = d_gain,
                                             .copy = d_stream.rounded,
                                             .copy_sums = rounded_sums});
        return;
    }
    const std::vector<SumView> d_bias = pass.sums_of(norm.bias);
    pass.kernels.run(op::LayerNormBackward{.d_output = d_output,
                                           .input = input,
                                           .gain = pass.master_of(norm.gain),
                                           .mean = saved.mean.view,
                                           .inverse_deviation = saved.inverse_scale.view,
                                           .d_stream = d_stream.exact,
                                           .grains = pass.grain_rows,
                                           .d_gain = d_gain,
                                           .d_bias = d_bias,
                                           .copy = d_stream.rounded,
                                           .copy_sums = rounded_sums});
}

}  // namespace accrue
