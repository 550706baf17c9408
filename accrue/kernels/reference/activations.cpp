#include <cmath>
#include <numbers>

#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {
namespace {

// gelu(x) = 0.5 x (1 + t), t = tanh(root (x + cubic x^3)).
const double kRoot = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

double gelu_of(double x) {
    return 0.5 * x * (1 + std::tanh(kRoot * (x + kCubic * x * x * x)));
}

double gelu_slope(double x) {
    const double t = std::tanh(kRoot * (x + kCubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRoot * (1 + 3 * kCubic * x * x);
}

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

}  // namespace

void ReferenceKernels::gelu(AnyConstView input, AnyView output) {
    for (int64_t r = 0; r < output.rows; ++r) {
        for (int64_t c = 0; c < output.columns; ++c) {
            store(output, r, c, gelu_of(value(input, r, c)));
        }
    }
}

void ReferenceKernels::gelu_grad(AnyConstView d_output, AnyConstView input, AnyView d_input) {
    for (int64_t r = 0; r < d_input.rows; ++r) {
        for (int64_t c = 0; c < d_input.columns; ++c) {
            store(d_input, r, c, value(d_output, r, c) * gelu_slope(value(input, r, c)));
        }
    }
}

void ReferenceKernels::swiglu(AnyConstView gate_up, AnyView output) {
    for (int64_t r = 0; r < output.rows; ++r) {
        for (int64_t c = 0; c < output.columns; ++c) {
            const double gate = value(gate_up, r, c);
            store(output, r, c, gate * sigmoid(gate) * value(gate_up, r, output.columns + c));
        }
    }
}

void ReferenceKernels::swiglu_grad(AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up) {
    for (int64_t r = 0; r < d_output.rows; ++r) {
        for (int64_t c = 0; c < d_output.columns; ++c) {
            const double d = value(d_output, r, c);
            const double gate = value(gate_up, r, c);
            const double up = value(gate_up, r, d_output.columns + c);
            const double s = sigmoid(gate);
            store(d_gate_up, r, c, d * up * s * (1 + gate * (1 - s)));
            store(d_gate_up, r, d_output.columns + c, d * gate * s);
        }
    }
}

}  // namespace accrue
