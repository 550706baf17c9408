#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {
namespace {

// Weight [o, i] as a factor beside a matrix of that dtype.
double factor_of(const WeightView& weight, DType beside, int64_t o, int64_t i) {
    const double element = value(weight, o, i);
    return beside == DType::bf16 ? static_cast<float>(Bf16(static_cast<float>(element))) : element;
}

double linear_element(AnyConstView input, const WeightView& weight, View<const float> bias, int64_t r, int64_t o) {
    double sum = bias.empty() ? 0 : bias.data[o];
    for (int64_t i = 0; i < weight.in(); ++i) {
        sum += value(input, r, i) * factor_of(weight, input.dtype, o, i);
    }
    return sum;
}

}  // namespace

void ReferenceKernels::linear(AnyConstView input, const WeightView& weight, View<const float> bias, AnyView output) {
    for (int64_t r = 0; r < output.rows; ++r) {
        for (int64_t o = 0; o < output.columns; ++o) {
            store(output, r, o, linear_element(input, weight, bias, r, o));
        }
    }
}

void ReferenceKernels::linear_residual(AnyConstView input, const WeightView& weight, View<const float> bias,
                                       const Dropout& dropout, View<const float> residual, View<float> output) {
    for (int64_t r = 0; r < output.rows; ++r) {
        for (int64_t o = 0; o < output.columns; ++o) {
            const double x = linear_element(input, weight, bias, r, o);
            const double factor = dropout_factor(dropout, r, static_cast<uint64_t>(o));
            store(output, r, o, value(residual, r, o) + (factor == 0 ? 0 : x * factor));
        }
    }
}

void ReferenceKernels::linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView d_input) {
    for (int64_t r = 0; r < d_input.rows; ++r) {
        for (int64_t i = 0; i < d_input.columns; ++i) {
            double sum = 0;
            for (int64_t o = 0; o < weight.out(); ++o) {
                sum += value(d_output, r, o) * factor_of(weight, d_output.dtype, o, i);
            }
            store(d_input, r, i, sum);
        }
    }
}

void ReferenceKernels::add_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                              const SumView& d_weight, const HeldRows& held) {
    for (int64_t o = 0; o < d_output.columns; ++o) {
        const int32_t slot = slot_of(held, o);
        for (int64_t i = 0; i < input.columns; ++i) {
            double sum = 0;
            for (int64_t r = 0; r < input.rows; ++r) {
                sum += value(d_output, r, o) * value(input, r, i);
            }
            if (slot >= 0) {
                store(held.values, slot, i, sum);
            } else if (layout == WeightLayout::out_in) {
                add(d_weight, o, i, sum);
            } else {
                add(d_weight, i, o, sum);
            }
        }
    }
}

void ReferenceKernels::add_bias_grad(AnyConstView d_output, const SumView& d_bias) {
    for (int64_t o = 0; o < d_output.columns; ++o) {
        double sum = 0;
        for (int64_t r = 0; r < d_output.rows; ++r) {
            sum += value(d_output, r, o);
        }
        add(d_bias, 0, o, sum);
    }
}

}  // namespace accrue
