#pragma once

#include <memory>
#include <vector>

#include "accrue/kernels/kernels.h"

// Parts of operations, as tests and benchmarks ask for them one by one.
namespace accrue::one_by_one {

// A weight of which only the extents matter.
[[nodiscard]] inline WeightView extents_of(AnyConstView d_output, AnyConstView input, WeightLayout layout) {
    const bool out_in = layout == WeightLayout::out_in;
    return {.matrix = {nullptr, DType::fp32, out_in ? d_output.columns : input.columns,
                       out_in ? input.columns : d_output.columns},
            .layout = layout};
}

// All rows are one grain.
inline void linear_input_grad(Kernels& kernels, AnyConstView d_output, const WeightView& weight, AnyView d_input) {
    kernels.run(op::LinearBackward{
        .d_output = d_output, .input = {}, .weight = weight, .d_input = d_input, .grains = {}, .sums = {}});
}

inline void add_linear_weight_grad(Kernels& kernels, AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                   const SumView& d_weight, const HeldRows& held = {}) {
    const RowRange all{.first = 0, .rows = d_output.rows};
    const op::LinearSums sums{.first_output = 0, .outputs = d_output.columns, .weight = std::span(&d_weight, 1)};
    kernels.run(
        op::LinearBackward{.d_output = d_output,
                           .input = input,
                           .weight = extents_of(d_output, input, layout),
                           .d_input = {},
                           .grains = std::span(&all, 1),
                           .sums = std::span(&sums, 1),
                           .held = held.slot_of_row.empty() ? std::span<const HeldRows>() : std::span(&held, 1)});
}

inline void add_bias_grad(Kernels& kernels, AnyConstView d_output, const SumView& d_bias) {
    const RowRange all{.first = 0, .rows = d_output.rows};
    const op::LinearSums sums{
        .first_output = 0, .outputs = d_output.columns, .weight = {}, .bias = std::span(&d_bias, 1)};
    kernels.run(op::LinearBackward{.d_output = d_output,
                                   .input = {},
                                   .weight = extents_of(d_output, d_output, WeightLayout::out_in),
                                   .d_input = {},
                                   .grains = std::span(&all, 1),
                                   .sums = std::span(&sums, 1)});
}

inline void add_lookup_grad(Kernels& kernels, View<const float> d_output, const LookupIndex& index,
                            const HeldRows& held, const SumView& d_table) {
    const op::LookupGrain grain{
        .rows = {.first = 0, .rows = d_output.rows}, .index = index, .held = held, .d_table = d_table};
    kernels.run(op::AddLookupGrad{.d_output = d_output, .grains = std::span(&grain, 1)});
}

[[nodiscard]] inline double squared_norm(Kernels& kernels, const MeanView& gradient) {
    const auto result = std::make_unique<double>();  // not on the stack, which not every device can reach
    kernels.run(op::SquaredNorm{.gradients = std::span(&gradient, 1), .result = {result.get(), 1, 1}});
    return *result;
}

}  // namespace accrue::one_by_one
