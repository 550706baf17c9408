#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/norms.cpp"
#include <hwy/foreach_target.h>

#include <cmath>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// 1 / sqrt(sum / count + epsilon); in double, because one rounding more here would be in every element.
HWY_INLINE float inverse_root(float sum, int64_t count, float epsilon) {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(sum) / static_cast<double>(count) + epsilon));
}

template <class In, class Out>
float rms_norm_run(const In* input, const float* gain, int64_t width, float epsilon, Out* output) {
    const float squares = sum_over(width, [&](int64_t i, int64_t left) HWY_ATTR {
        const auto x = load(input + i, left);
        return hn::Mul(x, x);
    });
    const float inverse_rms = inverse_root(squares, width, epsilon);
    const auto scale = hn::Set(Floats(), inverse_rms);
    for_lanes(width, [&](int64_t i, int64_t left) HWY_ATTR {
        store(hn::Mul(hn::Mul(load(input + i, left), scale), load(gain + i, left)), output + i, left);
    });
    return inverse_rms;
}

void rms_norm(const Context& context, AnyConstView input, View<const float> gain, float epsilon, AnyView output,
              View<float> inverse_rms) {
    const int64_t width = gain.columns;
    with_type(input, [&](auto in) HWY_ATTR {
        with_output_type(context.set, output, [&](auto out) HWY_ATTR {
            for_ranges(context.pool, in.rows, in.columns, [&](int64_t first, int64_t last) HWY_ATTR {
                for (int64_t r = first; r < last; ++r) {
                    for (int64_t run = 0; run < in.columns / width; ++run) {
                        inverse_rms.row(r)[run] =
                            rms_norm_run(in.row(r) + run * width, gain.data, width, epsilon, out.row(r) + run * width);
                    }
                }
            });
        });
    });
}

// How a gradient reaches its output: replacing what is there, or added to it.
enum class Put { write, add };

template <Put put, class T>
HWY_INLINE void put_lanes(FloatVector vector, T* to, int64_t left) {
    store(put == Put::add ? hn::Add(load(to, left), vector) : vector, to, left);
}

template <Put put, class Out, class In, class DIn>
void rms_norm_run_grad(const Out* d_output, const In* input, const float* gain, int64_t width, float inverse_rms,
                       DIn* d_input) {
    const auto scale = hn::Set(Floats(), inverse_rms);
    const auto g = [&](int64_t i, int64_t left)
                       HWY_ATTR { return hn::Mul(load(d_output + i, left), load(gain + i, left)); };
    const auto x = [&](int64_t i, int64_t left) HWY_ATTR { return hn::Mul(load(input + i, left), scale); };
    const float dot =
        sum_over(width, [&](int64_t i, int64_t left) HWY_ATTR { return hn::Mul(g(i, left), x(i, left)); });
    const auto mean = hn::Set(Floats(), dot / static_cast<float>(width));
    for_lanes(width, [&](int64_t i, int64_t left) HWY_ATTR {
        put_lanes<put>(hn::Mul(scale, hn::NegMulAdd(x(i, left), mean, g(i, left))), d_input + i, left);
    });
}

template <Put put, class Out, class In, class DIn>
void rms_norm_rows_grad(Pool& pool, View<const Out> d_output, View<const In> input, View<const float> gain,
                        View<const float> inverse_rms, View<DIn> d_input) {
    const int64_t width = gain.columns;
    for_ranges(pool, input.rows, input.columns, [&](int64_t first, int64_t last) HWY_ATTR {
        for (int64_t r = first; r < last; ++r) {
            for (int64_t run = 0; run < input.columns / width; ++run) {
                const int64_t column = run * width;
                rms_norm_run_grad<put>(d_output.row(r) + column, input.row(r) + column, gain.data, width,
                                       inverse_rms.row(r)[run], d_input.row(r) + column);
            }
        }
    });
}

void rms_norm_input_grad(Pool& pool, AnyConstView d_output, AnyConstView input, View<const float> gain,
                         View<const float> inverse_rms, AnyView d_input) {
    with_type(d_output, [&](auto above) HWY_ATTR {
        with_type(input, [&](auto in) HWY_ATTR {
            with_type(d_input, [&](auto d_in) HWY_ATTR {
                rms_norm_rows_grad<Put::write>(pool, above, in, gain, inverse_rms, d_in);
            });
        });
    });
}

void add_rms_norm_input_grad(Pool& pool, AnyConstView d_output, AnyConstView input, View<const float> gain,
                             View<const float> inverse_rms, View<float> d_input) {
    with_type(d_output, [&](auto above) HWY_ATTR {
        with_type(input,
                  [&](auto in) HWY_ATTR { rms_norm_rows_grad<Put::add>(pool, above, in, gain, inverse_rms, d_input); });
    });
}

template <class Out>
void layer_norm_row(const float* input, const float* gain, const float* bias, int64_t width, float epsilon, Out* output,
                    float& mean, float& inverse_deviation) {
    const float sum = sum_over(width, [&](int64_t i, int64_t left) HWY_ATTR { return load(input + i, left); });
    mean = sum / static_cast<float>(width);
    const auto center = hn::Set(Floats(), mean);
    const float squares = sum_over(width, [&](int64_t i, int64_t left) HWY_ATTR {
        const auto x = hn::Sub(load(input + i, left), center);
        return hn::Mul(x, x);
    });
    inverse_deviation = inverse_root(squares, width, epsilon);
    const auto scale = hn::Set(Floats(), inverse_deviation);
    for_lanes(width, [&](int64_t i, int64_t left) HWY_ATTR {
        const auto x = hn::Mul(hn::Sub(load(input + i, left), center), scale);
        store(hn::MulAdd(x, load(gain + i, left), load(bias + i, left)), output + i, left);
    });
}

void layer_norm(const Context& context, View<const float> input, View<const float> gain, View<const float> bias,
                float epsilon, AnyView output, View<float> mean, View<float> inverse_deviation) {
    with_output_type(context.set, output, [&](auto out) HWY_ATTR {
        for_ranges(context.pool, input.rows, input.columns, [&](int64_t first, int64_t last) HWY_ATTR {
            for (int64_t r = first; r < last; ++r) {
                layer_norm_row(input.row(r), gain.data, bias.data, input.columns, epsilon, out.row(r), *mean.row(r),
                               *inverse_deviation.row(r));
            }
        });
    });
}

template <class Out>
void add_layer_norm_row_grad(const Out* d_output, const float* input, const float* gain, int64_t width, float mean,
                             float inverse_deviation, float* d_input) {
    const auto center = hn::Set(Floats(), mean);
    const auto scale = hn::Set(Floats(), inverse_deviation);
    const auto g = [&](int64_t i, int64_t left)
                       HWY_ATTR { return hn::Mul(load(d_output + i, left), load(gain + i, left)); };
    const auto x = [&](int64_t i, int64_t left)
                       HWY_ATTR { return hn::Mul(hn::Sub(load(input + i, left), center), scale); };
    const float g_sum = sum_over(width, g);
    const float gx_sum =
        sum_over(width, [&](int64_t i, int64_t left) HWY_ATTR { return hn::Mul(g(i, left), x(i, left)); });
    const auto g_mean = hn::Set(Floats(), g_sum / static_cast<float>(width));
    const auto gx_mean = hn::Set(Floats(), gx_sum / static_cast<float>(width));
    for_lanes(width, [&](int64_t i, int64_t left) HWY_ATTR {
        const auto inner = hn::NegMulAdd(x(i, left), gx_mean, hn::Sub(g(i, left), g_mean));
        put_lanes<Put::add>(hn::Mul(scale, inner), d_input + i, left);
    });
}

void add_layer_norm_input_grad(Pool& pool, AnyConstView d_output, View<const float> input, View<const float> gain,
                               View<const float> mean, View<const float> inverse_deviation, View<float> d_input) {
    with_type(d_output, [&](auto above) HWY_ATTR {
        for_ranges(pool, input.rows, input.columns, [&](int64_t first, int64_t last) HWY_ATTR {
            for (int64_t r = first; r < last; ++r) {
                add_layer_norm_row_grad(above.row(r), input.row(r), gain.data, input.columns, *mean.row(r),
                                        *inverse_deviation.row(r), d_input.row(r));
            }
        });
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

void rms_norm(const Context& context, AnyConstView input, View<const float> gain, float epsilon, AnyView output,
              View<float> inverse_rms) {
    pick(context.set, N_SCALAR::rms_norm, N_AVX2::rms_norm, N_AVX3::rms_norm)(context, input, gain, epsilon, output,
                                                                              inverse_rms);
}

void rms_norm_input_grad(const Context& context, AnyConstView d_output, AnyConstView input, View<const float> gain,
                         View<const float> inverse_rms, AnyView d_input) {
    pick(context.set, N_SCALAR::rms_norm_input_grad, N_AVX2::rms_norm_input_grad, N_AVX3::rms_norm_input_grad)(
        context.pool, d_output, input, gain, inverse_rms, d_input);
}

void add_rms_norm_input_grad(const Context& context, AnyConstView d_output, AnyConstView input, View<const float> gain,
                             View<const float> inverse_rms, View<float> d_input) {
    pick(context.set, N_SCALAR::add_rms_norm_input_grad, N_AVX2::add_rms_norm_input_grad,
         N_AVX3::add_rms_norm_input_grad)(context.pool, d_output, input, gain, inverse_rms, d_input);
}

void layer_norm(const Context& context, View<const float> input, View<const float> gain, View<const float> bias,
                float epsilon, AnyView output, View<float> mean, View<float> inverse_deviation) {
    pick(context.set, N_SCALAR::layer_norm, N_AVX2::layer_norm, N_AVX3::layer_norm)(context, input, gain, bias, epsilon,
                                                                                    output, mean, inverse_deviation);
}

void add_layer_norm_input_grad(const Context& context, AnyConstView d_output, View<const float> input,
                               View<const float> gain, View<const float> mean, View<const float> inverse_deviation,
                               View<float> d_input) {
    pick(context.set, N_SCALAR::add_layer_norm_input_grad, N_AVX2::add_layer_norm_input_grad,
         N_AVX3::add_layer_norm_input_grad)(context.pool, d_output, input, gain, mean, inverse_deviation, d_input);
}

}  // namespace accrue::cpu
#endif
