#include <cmath>
#include <numbers>

#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {
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

void compute(const op::Gelu& call) {
    for (int64_t r = 0; r < call.output.rows; ++r) {
        for (int64_t c = 0; c < call.output.columns; ++c) {
            store(call.output, r, c, gelu_of(value(call.input, r, c)));
        }
    }
}

void compute(const op::GeluGrad& call) {
    for (int64_t r = 0; r < call.d_input.rows; ++r) {
        for (int64_t c = 0; c < call.d_input.columns; ++c) {
            store(call.d_input, r, c, value(call.d_output, r, c) * gelu_slope(value(call.input, r, c)));
        }
    }
    for (size_t grain = 0; grain < call.d_bias.size(); ++grain) {
        add_column_sums(call.d_input, call.grains[grain], call.d_bias[grain]);
    }
}

void compute(const op::Swiglu& call) {
    for (int64_t r = 0; r < call.output.rows; ++r) {
        for (int64_t c = 0; c < call.output.columns; ++c) {
            const double gate = value(call.gate_up, r, c);
            store(call.output, r, c, gate * sigmoid(gate) * value(call.gate_up, r, call.output.columns + c));
        }
    }
}

void compute(const op::SwigluGrad& call) {
    for (int64_t r = 0; r < call.d_output.rows; ++r) {
        for (int64_t c = 0; c < call.d_output.columns; ++c) {
            const double d = value(call.d_output, r, c);
            const double gate = value(call.gate_up, r, c);
            const double up = value(call.gate_up, r, call.d_output.columns + c);
            const double s = sigmoid(gate);
            store(call.d_gate_up, r, c, d * up * s * (1 + gate * (1 - s)));
            store(call.d_gate_up, r, call.d_output.columns + c, d * gate * s);
        }
    }
}

}  // namespace accrue::reference
