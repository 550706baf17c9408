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

void check(std::string_view kernel, std::string_view what, int64_t found, int64_t wanted) {
    if (found != wanted) {
        throw Error(cat(kernel, " was given ", found, " ", what, " where the other views have ", wanted));
    }
}

void check_dtypes(std::string_view kernel, const AnyConstView& left, const AnyConstView& right) {
    if (left.dtype != right.dtype) {
        throw Error(cat(kernel, " was given ", name_of(left.dtype), " and ", name_of(right.dtype),
                        ", but the factors of a product share one dtype"));
    }
}

// fp32 weights go with either dtype.
void check_weight(std::string_view kernel, const AnyConstView& factor, const WeightView& weight) {
    if (weight.matrix.dtype != DType::fp32) {
        check_dtypes(kernel, factor, weight.matrix);
    }
}

// input * weight^T, with its shapes checked.
Product forward(std::string_view kernel, const AnyConstView& input, const WeightView& weight, View<const float> bias,
                const AnyView& output) {
    check_weight(kernel, input, weight);
    check(kernel, "columns of input", input.columns, weight.in());
    check(kernel, "rows of output", output.rows, input.rows);
    check(kernel, "columns of output", output.columns, weight.out());
    if (!bias.empty()) {
        check(kernel, "columns of bias", bias.columns, weight.out());
    }
    return {.left = operand(input, Contiguous::depth),
            .right = outputs_of(weight, input.dtype),
            .shape = {.rows = input.rows, .columns = weight.out(), .depth = weight.in()}};
}

}  // namespace

void linear(const Context& context, AnyConstView input, const WeightView& weight, View<const float> bias,
            AnyView output) {
    const Product product = forward("linear", input, weight, bias, output);
    multiply(context, product, StoredResult{.output = output, .bias = bias, .dropout = {}, .residual = {}});
}

void linear_residual(const Context& context, AnyConstView input, const WeightView& weight, View<const float> bias,
                     const Dropout& dropout, View<const float> residual, View<float> output) {
    const Product product = forward("linear_residual", input, weight, bias, output);
    check("linear_residual", "rows of residual", residual.rows, output.rows);
    check("linear_residual", "columns of residual", residual.columns, output.columns);
    if (dropout.probability > 0) {
        check("linear_residual", "rows of dropout", dropout.rows.columns, output.rows);
    }
    multiply(context, product, StoredResult{.output = output, .bias = bias, .dropout = dropout, .residual = residual});
}

double linear_input_grad(const Context& context, AnyConstView d_output, const WeightView& weight, AnyView d_input,
                         StartedProducts started) {
    constexpr std::string_view kName = "linear_input_grad";
    check_weight(kName, d_output, weight);
    check(kName, "columns of d_output", d_output.columns, weight.out());
    check(kName, "rows of d_input", d_input.rows, d_output.rows);
    check(kName, "columns of d_input", d_input.columns, weight.in());
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
    constexpr std::string_view kName = "add_linear_weight_grad";
    const bool out_in = layout == WeightLayout::out_in;
    const AnyConstView& rows = out_in ? d_output : input;
    const AnyConstView& columns = out_in ? input : d_output;
    check_dtypes(kName, d_output, input);
    check(kName, "rows of d_output", d_output.rows, input.rows);
    check(kName, "rows of d_weight", d_weight.rows, rows.columns);
    check(kName, "columns of d_weight", d_weight.columns, columns.columns);
    if (!held.slot_of_row.empty()) {
        check(kName, "rows of held.slot_of_row", static_cast<int64_t>(held.slot_of_row.size()), d_weight.rows);
        check(kName, "columns of held.values", held.values.columns, d_weight.columns);
        if (!out_in) {
            throw Error(
                "add_linear_weight_grad was asked to hold rows of an in_out weight; only out_in weights have them");
        }
    }
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
