#pragma once

#include <memory>

#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/kernels/cpu/product.h"
#include "accrue/kernels/kernels.h"

// The products of kernels/operation/products.h, for CPUs, one by one. Shapes were checked before.
namespace accrue::cpu {

void linear(const Context& context, AnyConstView input, const WeightView& weight, View<const float> bias,
            AnyView output);

void linear_residual(const Context& context, AnyConstView input, const WeightView& weight, View<const float> bias,
                     const Dropout& dropout, View<const float> residual, View<float> output);

// d_input[r, i] = sum over o of d_output[r, o] * weight[o, i]
// With what was started before; returns the share of the threads' time that this took.
double linear_input_grad(const Context& context, AnyConstView d_output, const WeightView& weight, AnyView d_input,
                         StartedProducts started = {});

// d_weight[o, i] += sum over r of d_output[r, o] * input[r, i], for one grain.
void add_linear_weight_grad(const Context& context, AnyConstView d_output, AnyConstView input, WeightLayout layout,
                            const SumView& d_weight, const HeldRows& held);

// The same, left to be run.
[[nodiscard]] std::unique_ptr<StartedProduct> start_linear_weight_grad(const Context& context, AnyConstView d_output,
                                                                       AnyConstView input, WeightLayout layout,
                                                                       const SumView& d_weight, const HeldRows& held);

}  // namespace accrue::cpu
