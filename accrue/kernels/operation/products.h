#pragma once

#include <span>

#include "accrue/kernels/operation/basics.h"

namespace accrue {

// How a weight matrix lies in memory: [out, in] as in most models, or [in, out] as GPT-2 stores it.
enum class WeightLayout { out_in, in_out };

// The dtype of the matrix that it is multiplied with, or fp32: beside bf16 each of its elements is then rounded to bf16
// first, so that the result has the same bits as with a bf16 copy.
struct WeightView {
    AnyConstView matrix;
    WeightLayout layout = WeightLayout::out_in;

    [[nodiscard]] int64_t out() const { return layout == WeightLayout::out_in ? matrix.rows : matrix.columns; }
    [[nodiscard]] int64_t in() const { return layout == WeightLayout::out_in ? matrix.columns : matrix.rows; }
};

namespace op {

// Which product of a model it is: the loss head's are the largest, and are counted apart.
enum class ProductOf { block, head };

// output[r, o] = sum over i of input[r, i] * weight[o, i]  (+ bias[o] where given)
// Takes input any [rows, in], weight, bias [1, out] or empty, output any [rows, out].
struct Linear {
    static constexpr std::string_view kName = "linear";
    AnyConstView input;
    WeightView weight;
    View<const float> bias;
    AnyView output;
    ProductOf of = ProductOf::block;
    // The bias once more, rounded to the output's dtype, where somebody has it: a device whose outputs are narrow may add
    // that one instead, and rounds the bias itself where this is empty.
    AnyConstView narrow_bias = {};

    [[nodiscard]] Part part() const { return of == ProductOf::head ? Part::loss_head : Part::products_forward; }
    void check() const;
    void count(WorkByPart& work) const;
};

// output[r, o] = residual[r, o] + dropout(sum over i of input[r, i] * weight[o, i] + bias[o])
struct LinearResidual {
    static constexpr std::string_view kName = "linear_residual";
    AnyConstView input;
    WeightView weight;
    View<const float> bias;
    Dropout dropout;
    View<const float> residual;
    View<float> output;

    [[nodiscard]] static Part part() { return Part::products_forward; }
    void check() const;
    void count(WorkByPart& work) const;
};

enum class Activation { gelu, swiglu };

// hidden = Linear(input), activated = the activation of hidden, as op::Gelu and op::Swiglu compute it. One pass over the
// product's tiles where a device gains by it; the same bits either way.
struct LinearActivation {
    static constexpr std::string_view kName = "linear_activation";
    AnyConstView input;
    WeightView weight;
    View<const float> bias;
    Activation activation = Activation::gelu;
    AnyView hidden;
    AnyView activated;
    AnyConstView narrow_bias = {};

    [[nodiscard]] static Part part() { return Part::products_forward; }
    [[nodiscard]] Linear product() const { return {input, weight, bias, hidden, ProductOf::block, narrow_bias}; }
    void check() const;
    void count(WorkByPart& work) const;
};

// Some outputs of a product that are a tensor of their own (query, key or value, say), and where its gradients go: one sum
// for each grain, or none for a frozen tensor.
struct LinearSums {
    int64_t first_output = 0;
    int64_t outputs = 0;
    std::span<const SumView> weight;
    std::span<const SumView> bias = {};
};

// The backward pass of Linear, for all grains of a micro-batch; a device may order its products as it likes.
//   d_input[r, i] = sum over o of d_output[r, o] * weight[o, i], where d_input is not empty
//   d_weight[o, i] += sum over the grain's r of d_output[r, o] * input[r, i], for each grain; [i, o] with in_out.
//     The grain's total of an element is computed in fp32 and rounded once to the sum's unit.
//   d_bias[o] += sum over the grain's r of d_output[r, o], in double, rounded once
// Takes     d_output any [rows, out], input any [rows, in], d_input any [rows, in]; input may be empty without sums of weights.
// Held      rows of the only sum's weight that `held` names (one for each grain, or none at all) are written to its
//           values instead, and neither added nor recorded (out_in only).
// Sums may be complete later than the call, at the latest after CompleteSums; held values and d_input are complete.
struct LinearBackward {
    static constexpr std::string_view kName = "linear_backward";
    AnyConstView d_output;
    AnyConstView input;
    WeightView weight;
    AnyView d_input;
    std::span<const RowRange> grains;
    std::span<const LinearSums> sums;
    std::span<const HeldRows> held = {};
    ProductOf of = ProductOf::block;

    [[nodiscard]] Part part() const { return of == ProductOf::head ? Part::loss_head : Part::products_input; }
    [[nodiscard]] Part weight_part() const { return of == ProductOf::head ? Part::loss_head : Part::products_weight; }
    [[nodiscard]] HeldRows held_of(size_t grain) const { return held.empty() ? HeldRows{} : held[grain]; }
    void check() const;
    void count(WorkByPart& work) const;
};

}  // namespace op
}  // namespace accrue
