#include <cmath>

#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {
namespace {

// The gradient of a norm's input at row r, columns first .. first + width - 1, given to put(column, x):
//   scale * (g - center * mean(g) - x * mean(g * x)), g = d_output * gain, x = (input - mean) * scale, center 1 or 0.
template <class Put>
void norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain, int64_t r, int64_t first,
                     double mean, double scale, double center, const Put& put) {
    const int64_t width = gain.columns;
    const auto g = [&](int64_t c) { return value(d_output, r, first + c) * gain.data[c]; };
    const auto x = [&](int64_t c) { return (value(input, r, first + c) - mean) * scale; };
    double g_sum = 0;
    double gx_sum = 0;
    for (int64_t c = 0; c < width; ++c) {
        g_sum += g(c);
        gx_sum += g(c) * x(c);
    }
    const auto count = static_cast<double>(width);
    for (int64_t c = 0; c < width; ++c) {
        put(first + c, scale * (g(c) - center * g_sum / count - x(c) * gx_sum / count));
    }
}

template <class Put>
void all_rms_norm_input_grads(AnyConstView d_output, AnyConstView input, View<const float> gain,
                              View<const float> inverse_rms, const Put& put) {
    for (int64_t r = 0; r < input.rows; ++r) {
        for (int64_t run = 0; run < input.columns / gain.columns; ++run) {
            norm_input_grad(d_output, input, gain, r, run * gain.columns, 0, inverse_rms.row(r)[run], 0,
                            [&](int64_t c, double x) { put(r, c, x); });
        }
    }
}

}  // namespace

void ReferenceKernels::rms_norm(AnyConstView input, View<const float> gain, float epsilon, AnyView output,
                                View<float> inverse_rms) {
    const int64_t width = gain.columns;
    for (int64_t r = 0; r < input.rows; ++r) {
        for (int64_t run = 0; run < input.columns / width; ++run) {
            double squares = 0;
            for (int64_t c = run * width; c < (run + 1) * width; ++c) {
                squares += value(input, r, c) * value(input, r, c);
            }
            const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
            store(inverse_rms, r, run, scale);
            for (int64_t c = 0; c < width; ++c) {
                store(output, r, run * width + c, value(input, r, run * width + c) * scale * gain.data[c]);
            }
        }
    }
}

void ReferenceKernels::rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                           View<const float> inverse_rms, AnyView d_input) {
    all_rms_norm_input_grads(d_output, input, gain, inverse_rms,
                             [&](int64_t r, int64_t c, double x) { store(d_input, r, c, x); });
}

void ReferenceKernels::add_rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                               View<const float> inverse_rms, View<float> d_input) {
    all_rms_norm_input_grads(d_output, input, gain, inverse_rms,
                             [&](int64_t r, int64_t c, double x) { store(d_input, r, c, value(d_input, r, c) + x); });
}

void ReferenceKernels::add_rms_norm_gain_grad(AnyConstView d_output, AnyConstView input, View<const float> inverse_rms,
                                              const SumView& d_gain) {
    const int64_t width = d_gain.elements();
    for (int64_t c = 0; c < width; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < input.rows; ++r) {
            for (int64_t run = 0; run < input.columns / width; ++run) {
                const int64_t column = run * width + c;
                sum += value(d_output, r, column) * value(input, r, column) * inverse_rms.row(r)[run];
            }
        }
        add(d_gain, 0, c, sum);
    }
}

void ReferenceKernels::layer_norm(View<const float> input, View<const float> gain, View<const float> bias,
                                  float epsilon, AnyView output, View<float> mean, View<float> inverse_deviation) {
    const auto count = static_cast<double>(input.columns);
    for (int64_t r = 0; r < input.rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < input.columns; ++c) {
            sum += value(input, r, c);
        }
        const double center = sum / count;
        double squares = 0;
        for (int64_t c = 0; c < input.columns; ++c) {
            squares += (value(input, r, c) - center) * (value(input, r, c) - center);
        }
        const double scale = 1 / std::sqrt(squares / count + epsilon);
        store(mean, r, 0, center);
        store(inverse_deviation, r, 0, scale);
        for (int64_t c = 0; c < input.columns; ++c) {
            store(output, r, c, (value(input, r, c) - center) * scale * gain.data[c] + bias.data[c]);
        }
    }
}

void ReferenceKernels::add_layer_norm_input_grad(AnyConstView d_output, View<const float> input, View<const float> gain,
                                                 View<const float> mean, View<const float> inverse_deviation,
                                                 View<float> d_input) {
    for (int64_t r = 0; r < input.rows; ++r) {
        norm_input_grad(d_output, input, gain, r, 0, mean.row(r)[0], inverse_deviation.row(r)[0], 1,
                        [&](int64_t c, double x) { store(d_input, r, c, value(d_input, r, c) + x); });
    }
}

void ReferenceKernels::add_layer_norm_gain_grad(AnyConstView d_output, View<const float> input, View<const float> mean,
                                                View<const float> inverse_deviation, const SumView& d_gain) {
    for (int64_t c = 0; c < input.columns; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < input.rows; ++r) {
            const double x = (value(input, r, c) - mean.row(r)[0]) * inverse_deviation.row(r)[0];
            sum += value(d_output, r, c) * x;
        }
        add(d_gain, 0, c, sum);
    }
}

}  // namespace accrue
