#include "accrue/kernels/cpu/linear.h"

#include "accrue/kernels/cpu/product.h"

namespace accrue::cpu {
namespace {

Operand operand(const AnyConstView& view, Contiguous contiguous) {
    return {.data = view.data, .dtype = view.dtype, .stride = view.stride, .contiguous = contiguous};
}

// A weight beside a factor of that dtype.
Operand weight_operand(const WeightView& weight, DType beside, Contiguous contiguous) {
    Operand result = operand(weight.matrix, contiguous);
    result.rounded = weight.matrix.dtype == DType::fp32 && beside == DType::bf16;
    return result;
}

// The weight with its outputs as lanes and its inputs as depth, and the other way round.
Operand outputs_of(const WeightView& weight, DType beside) {
    return weight_operand(weight, beside,
                          weight.layout == WeightLayout::out_in ? Contiguous::depth : Contiguous::lanes);
}
Operand inputs_of(const WeightView& weight, DType beside) {
    return weight_operand(weight, beside,
                          weight.layout == WeightLayout::out_in ? Contiguous::lanes : Contiguous::depth);
}

// input * weight^T
Product forward(const AnyConstView& input, const WeightView& weight) {
    return {.left = operand(input, Contiguous::depth),
            .right = outputs_of(weight, input.dtype),
            .shape = {.rows = input.rows, .columns = weight.out(), .depth = weight.in()}};
}

}  // namespace

void linear(const Context& context, AnyConstView input, const WeightView& weight, View<const float> bias,
            AnyView output) {
    multiply(context, forward(input, weight),
             StoredResult{.output = output, .bias = bias, .dropout = {}, .residual = {}});
}

void linear_residual(const Context& context, AnyConstView input, const WeightView& weight, View<const float> bias,
                     const Dropout& dropout, View<const float> residual, View<float> output) {
    multiply(context, forward(input, weight),
             StoredResult{.output = output, .bias = bias, .dropout = dropout, .residual = residual});
}

double linear_input_grad(const Context& context, AnyConstView d_output, const WeightView& weight, AnyView d_input,
                         StartedProducts started) {
    const Product product{.left = operand(d_output, Contiguous::depth),
                          .right = inputs_of(weight, d_output.dtype),
                          .shape = {.rows = d_output.rows, .columns = weight.in(), .depth = weight.out()}};
    return multiply(context, std::move(started), product,
                    StoredResult{.output = d_input, .bias = {}, .dropout = {}, .residual = {}});
}

namespace {

struct WeightProduct {
    Product product;
    AddedResult result;
};

WeightProduct weight_product(AnyConstView d_output, AnyConstView input, WeightLayout layout, const SumView& d_weight,
                             const HeldRows& held) {
    const bool out_in = layout == WeightLayout::out_in;
    const AnyConstView& rows = out_in ? d_output : input;
    const AnyConstView& columns = out_in ? input : d_output;
    const bool turned = is_turned(d_weight.rows, d_weight.columns, d_output.dtype);
    const AnyConstView& left = turned ? columns : rows;
    const AnyConstView& right = turned ? rows : columns;
    const Product product{.left = operand(left, Contiguous::lanes),
                          .right = operand(right, Contiguous::lanes),
                          .shape = {.rows = left.columns, .columns = right.columns, .depth = input.rows}};
    return {.product = product, .result = {.sum = d_weight, .held = held, .turned = turned}};
}

}  // namespace

void add_linear_weight_grad(const Context& context, AnyConstView d_output, AnyConstView input, WeightLayout layout,
                            const SumView& d_weight, const HeldRows& held) {
    const auto [product, result] = weight_product(d_output, input, layout, d_weight, held);
    multiply(context, product, result);
}

std::unique_ptr<StartedProduct> start_linear_weight_grad(const Context& context, AnyConstView d_output,
                                                         AnyConstView input, WeightLayout layout,
                                                         const SumView& d_weight, const HeldRows& held) {
    const auto [product, result] = weight_product(d_output, input, layout, d_weight, held);
    return start(context, product, result);
}

}  // namespace accrue::cpu
