#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {
namespace {

// Weight [o, i] as a factor beside a matrix of that dtype.
double factor_of(const WeightView& weight, DType beside, int64_t o, int64_t i) {
    const double element = value(weight, o, i);
    return beside == DType::fp32 ? element : rounded(element, beside);
}

double linear_element(AnyConstView input, const WeightView& weight, View<const float> bias, int64_t r, int64_t o) {
    double sum = bias.empty() ? 0 : bias.data[o];
    for (int64_t i = 0; i < weight.in(); ++i) {
        sum += value(input, r, i) * factor_of(weight, input.dtype, o, i);
    }
    return sum;
}

void add_weight_grad(const op::LinearBackward& call, size_t grain, const op::LinearSums& sums) {
    const RowRange& rows = call.grains[grain];
    const HeldRows held = call.held_of(grain);
    for (int64_t o = 0; o < sums.outputs; ++o) {
        const int32_t slot = slot_of(held, o);
        for (int64_t i = 0; i < call.input.columns; ++i) {
            double sum = 0;
            for (int64_t r = rows.first; r < rows.first + rows.rows; ++r) {
                sum += value(call.d_output, r, sums.first_output + o) * value(call.input, r, i);
            }
            if (slot >= 0) {
                store(held.values, slot, i, sum);
            } else if (call.weight.layout == WeightLayout::out_in) {
                add(sums.weight[grain], o, i, sum);
            } else {
                add(sums.weight[grain], i, o, sum);
            }
        }
    }
}

}  // namespace

void compute(const op::Linear& call) {
    for (int64_t r = 0; r < call.output.rows; ++r) {
        for (int64_t o = 0; o < call.output.columns; ++o) {
            store(call.output, r, o, linear_element(call.input, call.weight, call.bias, r, o));
        }
    }
}

void compute(const op::LinearResidual& call) {
    for (int64_t r = 0; r < call.output.rows; ++r) {
        for (int64_t o = 0; o < call.output.columns; ++o) {
            const double x = linear_element(call.input, call.weight, call.bias, r, o);
            const double factor = dropout_factor(call.dropout, r, static_cast<uint64_t>(o));
            store(call.output, r, o, value(call.residual, r, o) + (factor == 0 ? 0 : x * factor));
        }
    }
}

void compute(const op::LinearActivation& call) {
    compute(call.product());
    if (call.activation == op::Activation::gelu) {
        compute(op::Gelu{.input = call.hidden, .output = call.activated});
    } else {
        compute(op::Swiglu{.gate_up = call.hidden, .output = call.activated});
    }
}

void compute(const op::LinearBackward& call) {
    for (size_t grain = 0; grain < call.grains.size(); ++grain) {
        for (const op::LinearSums& sums : call.sums) {
            if (!sums.bias.empty()) {
                add_column_sums(call.d_output.slice_columns(sums.first_output, sums.outputs), call.grains[grain],
                                sums.bias[grain]);
            }
            if (!sums.weight.empty()) {
                add_weight_grad(call, grain, sums);
            }
        }
    }
    for (int64_t r = 0; r < call.d_input.rows; ++r) {
        for (int64_t i = 0; i < call.d_input.columns; ++i) {
            double sum = 0;
            for (int64_t o = 0; o < call.weight.out(); ++o) {
                sum += value(call.d_output, r, o) * factor_of(call.weight, call.d_output.dtype, o, i);
            }
            store(call.d_input, r, i, sum);
        }
    }
}

}  // namespace accrue::reference
