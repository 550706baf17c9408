#pragma once

#include <span>

#include "accrue/kernels/operation/basics.h"

namespace accrue::op {

// output = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), Hugging Face's "gelu_new".
struct Gelu {
    static constexpr std::string_view kName = "gelu";
    AnyConstView input;
    AnyView output;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

// d_input = d_output * gelu'(input); d_input may be d_output.
//   d_bias[c] += sum over the grain's r of d_input[r, c], for each grain; no sums = nobody wants them. It is the gradient of
//   the bias of the product that made the input, with the same bits as LinearBackward gives it.
struct GeluGrad {
    static constexpr std::string_view kName = "gelu_grad";
    AnyConstView d_output;
    AnyConstView input;
    AnyView d_input;
    std::span<const RowRange> grains = {};
    std::span<const SumView> d_bias = {};

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

// output[r, c] = silu(gate) * up, gate = gate_up[r, c], up = gate_up[r, columns + c].
struct Swiglu {
    static constexpr std::string_view kName = "swiglu";
    AnyConstView gate_up;
    AnyView output;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

struct SwigluGrad {
    static constexpr std::string_view kName = "swiglu_grad";
    AnyConstView d_output;
    AnyConstView gate_up;
    AnyView d_gate_up;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

}  // namespace accrue::op
