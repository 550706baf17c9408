#include "accrue/kernels/operation/products.h"

namespace accrue::op {
namespace {

void require_dtypes(std::string_view operation, const AnyConstView& left, const AnyConstView& right) {
    if (left.dtype != right.dtype) {
        throw Error(cat(operation, " was given ", name_of(left.dtype), " and ", name_of(right.dtype),
                        ", but the factors of a product share one dtype"));
    }
}

// fp32 weights go with either dtype.
void require_weight(std::string_view operation, const AnyConstView& factor, const WeightView& weight) {
    if (weight.matrix.dtype != DType::fp32) {
        require_dtypes(operation, factor, weight.matrix);
    }
}

void check_forward(std::string_view operation, const AnyConstView& input, const WeightView& weight,
                   View<const float> bias, const AnyConstView& output) {
    require_weight(operation, input, weight);
    require_equal(operation, "columns of input", input.columns, weight.in());
    require_equal(operation, "rows of output", output.rows, input.rows);
    require_equal(operation, "columns of output", output.columns, weight.out());
    if (!bias.empty()) {
        require_equal(operation, "columns of bias", bias.columns, weight.out());
    }
}

double product_flops(int64_t rows, int64_t columns, int64_t depth) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
}

// A product of all rows with a weight, either way round.
double product_flops(int64_t rows, const WeightView& weight) {
    return product_flops(rows, weight.out(), weight.in());
}

void check_sums(const LinearBackward& call, const LinearSums& sums) {
    constexpr std::string_view kName = LinearBackward::kName;
    const bool out_in = call.weight.layout == WeightLayout::out_in;
    if (!sums.weight.empty()) {
        require_equal(kName, "sums of a weight", std::ssize(sums.weight), std::ssize(call.grains));
    }
    if (!sums.bias.empty()) {
        require_equal(kName, "sums of a bias", std::ssize(sums.bias), std::ssize(call.grains));
    }
    for (const SumView& sum : sums.weight) {
        require_equal(kName, "rows of d_weight", sum.rows, out_in ? sums.outputs : call.input.columns);
        require_equal(kName, "columns of d_weight", sum.columns, out_in ? call.input.columns : sums.outputs);
    }
    for (const SumView& sum : sums.bias) {
        require_equal(kName, "elements of d_bias", sum.elements(), sums.outputs);
    }
}

void check_held(const LinearBackward& call) {
    constexpr std::string_view kName = LinearBackward::kName;
    if (call.held.empty()) {
        return;
    }
    require_equal(kName, "held rows", std::ssize(call.held), std::ssize(call.grains));
    require_equal(kName, "weights with held rows", std::ssize(call.sums), 1);
    if (call.weight.layout != WeightLayout::out_in) {
        throw Error(cat(kName, " was asked to hold rows of an in_out weight; only out_in weights have them"));
    }
    for (const HeldRows& held : call.held) {
        require_equal(kName, "rows of held.slot_of_row", held.slot_of_row.columns, call.weight.out());
        require_equal(kName, "columns of held.values", held.values.columns, call.weight.in());
    }
}

}  // namespace

void Linear::check() const {
    check_forward(kName, input, weight, bias, output);
}

void Linear::count(WorkByPart& work) const {
    work.add(part(), product_flops(input.rows, weight), bytes_in(input) + bytes_in(weight.matrix) + bytes_in(output));
}

void LinearResidual::check() const {
    check_forward(kName, input, weight, bias, output);
    require_alike(kName, "residual", residual, output);
    require_rows(kName, dropout, output.rows);
}

void LinearResidual::count(WorkByPart& work) const {
    work.add(part(), product_flops(input.rows, weight),
             bytes_in(input) + bytes_in(weight.matrix) + bytes_in(residual) + bytes_in(output));
}

void LinearActivation::check() const {
    check_forward(kName, input, weight, bias, hidden);
    require_equal(kName, "rows of activated", activated.rows, hidden.rows);
    const int64_t inputs_each = activation == Activation::swiglu ? 2 : 1;
    require_equal(kName, "columns of activated", activated.columns * inputs_each, hidden.columns);
}

void LinearActivation::count(WorkByPart& work) const {
    product().count(work);
    work.add(Part::elementwise, 0, bytes_in(hidden) + bytes_in(activated));
}

void LinearBackward::check() const {
    require_weight(kName, d_output, weight);
    require_equal(kName, "columns of d_output", d_output.columns, weight.out());
    if (!d_input.empty()) {
        require_equal(kName, "rows of d_input", d_input.rows, d_output.rows);
        require_equal(kName, "columns of d_input", d_input.columns, weight.in());
    }
    for (const LinearSums& some : sums) {
        if (!some.weight.empty()) {
            require_dtypes(kName, d_output, input);
            require_equal(kName, "rows of input", input.rows, d_output.rows);
            require_equal(kName, "columns of input", input.columns, weight.in());
        }
        check_sums(*this, some);
    }
    check_held(*this);
}

void LinearBackward::count(WorkByPart& work) const {
    if (!d_input.empty()) {
        work.add(part(), product_flops(d_output.rows, weight),
                 bytes_in(d_output) + bytes_in(weight.matrix) + bytes_in(d_input));
    }
    for (size_t grain = 0; grain < grains.size(); ++grain) {
        const int64_t rows = grains[grain].rows;
        for (const LinearSums& some : sums) {
            const int64_t d_bytes = rows * some.outputs * bytes_of(d_output.dtype);
            if (!some.weight.empty()) {
                work.add(weight_part(), product_flops(rows, some.outputs, input.columns),
                         d_bytes + rows * input.columns * bytes_of(input.dtype) + bytes_in(some.weight[grain]));
            }
            if (!some.bias.empty()) {
                work.add(Part::elementwise, 0, d_bytes + bytes_in(some.bias[grain]));
            }
        }
    }
}

}  // namespace accrue::op
