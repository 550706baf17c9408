#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/activations.cpp"
#include <hwy/foreach_target.h>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// gelu(x) = x * sigmoid(2 u) with 2 u = kTwiceRoot (x + kCubic x^3) and kTwiceRoot = 2 sqrt(2 / pi).
inline constexpr float kTwiceRoot = 1.5957691216057308F;
inline constexpr float kCubic = 0.044715F;

HWY_INLINE FloatVector constant(float value) {
    return hn::Set(Floats(), value);
}

// x within [-limit, limit]; NaN stays NaN.
HWY_INLINE FloatVector limited(FloatVector x, float limit) {
    return at_most(at_least(x, -limit), limit);
}

// x * sigmoid(y), given t = -y / log(2). Where 2^t overflows, the quotient is 0, as it should be.
HWY_INLINE FloatVector times_sigmoid(FloatVector x, FloatVector t) {
    const auto e = power_of_two(at_most(at_least(t, -126), 128));
    return hn::Div(x, hn::Add(constant(1), e));
}

HWY_INLINE FloatVector silu_of(FloatVector x) {
    return times_sigmoid(x, hn::Mul(constant(-kLog2E), x));
}

// sigmoid(y) + factor * sigmoid'(y), given t = -y / log(2) within +-126.
HWY_INLINE FloatVector sigmoid_with_slope(FloatVector t, FloatVector factor) {
    const auto e = power_of_two(t);
    const auto value = hn::Div(constant(1), hn::Add(constant(1), e));
    return hn::MulAdd(hn::Mul(factor, value), hn::Mul(e, value), value);
}

// -2 u / log(2) for x and its square.
HWY_INLINE FloatVector gelu_exponent(FloatVector x, FloatVector square) {
    constexpr float kFirst = -kTwiceRoot * kLog2E;
    return hn::Mul(x, hn::MulAdd(constant(kFirst * kCubic), square, constant(kFirst)));
}

HWY_INLINE FloatVector gelu_of(FloatVector x) {
    return times_sigmoid(x, gelu_exponent(x, hn::Mul(x, x)));
}

// Beyond +-10 the slope is 1 or 0 in fp32, and 2^t is finite within.
HWY_INLINE FloatVector gelu_slope_of(FloatVector any) {
    const auto x = limited(any, 10);
    const auto square = hn::Mul(x, x);
    const auto twice_u_slope = hn::MulAdd(constant(3 * kCubic * kTwiceRoot), square, constant(kTwiceRoot));
    return sigmoid_with_slope(gelu_exponent(x, square), hn::Mul(x, twice_u_slope));
}

HWY_INLINE FloatVector silu_slope_of(FloatVector any) {
    const auto x = limited(any, 87);  // beyond, the slope is 1 or 0 in fp32
    return sigmoid_with_slope(hn::Mul(constant(-kLog2E), x), x);
}

void gelu(const Context& context, AnyConstView input, AnyView output) {
    with_type(input, [&](auto in) HWY_ATTR {
        with_output_type(context.set, output, [&](auto out) HWY_ATTR {
            for_pieces(context.pool, output.rows, output.columns,
                       [&](int64_t row, int64_t first, int64_t count) HWY_ATTR {
                           const auto* from = in.row(row) + first;
                           auto* to = out.row(row) + first;
                           for_lanes(count, [&](int64_t i, int64_t left)
                                                HWY_ATTR { store(gelu_of(load(from + i, left)), to + i, left); });
                       });
        });
    });
}

template <class Out, class In, class DIn>
void gelu_grad_typed(Pool& pool, View<const Out> d_output, View<const In> input, View<DIn> d_input) {
    for_pieces(pool, input.rows, input.columns, [&](int64_t row, int64_t first, int64_t count) HWY_ATTR {
        const Out* above = d_output.row(row) + first;
        const In* from = input.row(row) + first;
        DIn* to = d_input.row(row) + first;
        for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR {
            store(hn::Mul(load(above + i, left), gelu_slope_of(load(from + i, left))), to + i, left);
        });
    });
}

void gelu_grad(const Context& context, AnyConstView d_output, AnyConstView input, AnyView d_input) {
    with_type(d_output, [&](auto above) HWY_ATTR {
        with_type(input, [&](auto in) HWY_ATTR {
            with_output_type(context.set, d_input,
                             [&](auto d_in) HWY_ATTR { gelu_grad_typed(context.pool, above, in, d_in); });
        });
    });
}

void swiglu(const Context& context, AnyConstView gate_up, AnyView output) {
    with_type(gate_up, [&](auto in) HWY_ATTR {
        with_output_type(context.set, output, [&](auto out) HWY_ATTR {
            for_pieces(context.pool, output.rows, output.columns,
                       [&](int64_t row, int64_t first, int64_t count) HWY_ATTR {
                           const auto* gates = in.row(row) + first;
                           const auto* ups = gates + output.columns;
                           auto* to = out.row(row) + first;
                           for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR {
                               const auto gate = load(gates + i, left);
                               store(hn::Mul(silu_of(gate), load(ups + i, left)), to + i, left);
                           });
                       });
        });
    });
}

template <class Out, class In, class DIn>
void swiglu_grad_typed(Pool& pool, View<const Out> d_output, View<const In> gate_up, View<DIn> d_gate_up) {
    const int64_t columns = d_output.columns;
    for_pieces(pool, d_output.rows, columns, [&](int64_t row, int64_t first, int64_t count) HWY_ATTR {
        const Out* above = d_output.row(row) + first;
        const In* gates = gate_up.row(row) + first;
        DIn* to = d_gate_up.row(row) + first;
        for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR {
            const auto d = load(above + i, left);
            const auto gate = load(gates + i, left);
            const auto up = load(gates + columns + i, left);
            store(hn::Mul(hn::Mul(d, up), silu_slope_of(gate)), to + i, left);
            store(hn::Mul(d, silu_of(gate)), to + columns + i, left);
        });
    });
}

void swiglu_grad(const Context& context, AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up) {
    with_type(d_output, [&](auto above) HWY_ATTR {
        with_type(gate_up, [&](auto in) HWY_ATTR {
            with_output_type(context.set, d_gate_up,
                             [&](auto d_in) HWY_ATTR { swiglu_grad_typed(context.pool, above, in, d_in); });
        });
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

void gelu(const Context& context, AnyConstView input, AnyView output) {
    pick(context.set, N_SCALAR::gelu, N_AVX2::gelu, N_AVX3::gelu)(context, input, output);
}

void gelu_grad(const Context& context, AnyConstView d_output, AnyConstView input, AnyView d_input) {
    pick(context.set, N_SCALAR::gelu_grad, N_AVX2::gelu_grad, N_AVX3::gelu_grad)(context, d_output, input, d_input);
}

void swiglu(const Context& context, AnyConstView gate_up, AnyView output) {
    pick(context.set, N_SCALAR::swiglu, N_AVX2::swiglu, N_AVX3::swiglu)(context, gate_up, output);
}

void swiglu_grad(const Context& context, AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up) {
    pick(context.set, N_SCALAR::swiglu_grad, N_AVX2::swiglu_grad, N_AVX3::swiglu_grad)(context, d_output, gate_up,
                                                                                       d_gate_up);
}

}  // namespace accrue::cpu
#endif
