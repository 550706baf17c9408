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
    return {weights.master.data + parameters[bias].offset, 1, linear.out};
}

View<const float> Pass::master_of(int64_t parameter) const {
    const Parameter& p = parameters[parameter];
    return {weights.master.data + p.offset, p.rows(), p.columns()};
}

void linear_weight_backward(const Pass& pass, const LinearParameters& linear, AnyConstView d_output,
                            AnyConstView input) {
    const auto for_parts = [&](const auto& body) {
        for (const TokenBatch::Grain& grain : pass.grains) {
            const AnyConstView d_rows = d_output.slice_rows(grain.range.first, grain.range.rows);
            for (const auto& part : linear.parts) {
                body(grain, part, d_rows.slice_columns(part.first_output, part.outputs));
            }
        }
    };
    // First, while a cache still holds what was just written.
    for_parts([&](const auto& grain, const auto& part, AnyConstView d_part) {
        if (part.bias >= 0) {
            pass.kernels.add_bias_grad(d_part, pass.sink->sum_of(grain.number, part.bias));
        }
    });
    for_parts([&](const auto& grain, const auto& part, AnyConstView d_part) {
        pass.kernels.start_linear_weight_grad(d_part, input.slice_rows(grain.range.first, grain.range.rows),
                                              linear.layout, pass.sink->sum_of(grain.number, part.weight), {});
    });
}

Place::Place(Arena& arena, const LeasedAny& kept, DType dtype, int64_t rows, int64_t columns) : view_(kept.view) {
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
        pass.kernels.rms_norm(input, pass.master_of(norm.gain), epsilon, output, saved.inverse_scale.view);
        return;
    }
    pass.kernels.layer_norm(input, pass.master_of(norm.gain), pass.master_of(norm.bias), epsilon, output,
                            saved.mean.view, saved.inverse_scale.view);
}

void norm_backward(const Pass& pass, const NormParameters& norm, const NormSaved& saved, View<const float> input,
                   AnyConstView d_output, View<float> d_input) {
    Kernels& kernels = pass.kernels;
    const View<const float> scale = saved.inverse_scale.view;
    const View<const float> mean = saved.mean.view;
    for (const auto& [number, range] : pass.grains) {
        const AnyConstView d_rows = d_output.slice_rows(range.first, range.rows);
        const View<const float> input_rows = input.slice_rows(range.first, range.rows);
        const View<const float> scale_rows = scale.slice_rows(range.first, range.rows);
        const SumView d_gain = pass.sink->sum_of(number, norm.gain);
        if (norm.bias < 0) {
            kernels.add_rms_norm_gain_grad(d_rows, input_rows, scale_rows, d_gain);
        } else {
            kernels.add_layer_norm_gain_grad(d_rows, input_rows, mean.slice_rows(range.first, range.rows), scale_rows,
                                             d_gain);
            kernels.add_bias_grad(d_rows, pass.sink->sum_of(number, norm.bias));
        }
    }
    if (norm.bias < 0) {
        kernels.add_rms_norm_input_grad(d_output, input, pass.master_of(norm.gain), scale, d_input);
    } else {
        kernels.add_layer_norm_input_grad(d_output, input, pass.master_of(norm.gain), mean, scale, d_input);
    }
}

}  // namespace accrue
