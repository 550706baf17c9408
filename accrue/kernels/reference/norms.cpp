#include <cmath>

#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {
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
void all_rms_norm_input_grads(const op::RmsNormBackward& call, const Put& put) {
    for (int64_t r = 0; r < call.input.rows; ++r) {
        for (int64_t run = 0; run < call.input.columns / call.gain.columns; ++run) {
            norm_input_grad(call.d_output, call.input, call.gain, r, run * call.gain.columns, 0,
                            call.inverse_rms.row(r)[run], 0, [&](int64_t c, double x) { put(r, c, x); });
        }
    }
}

}  // namespace

void compute(const op::RmsNorm& call) {
    const int64_t width = call.gain.columns;
    for (int64_t r = 0; r < call.input.rows; ++r) {
        for (int64_t run = 0; run < call.input.columns / width; ++run) {
            double squares = 0;
            for (int64_t c = run * width; c < (run + 1) * width; ++c) {
                squares += value(call.input, r, c) * value(call.input, r, c);
            }
            const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + call.epsilon);
            store(call.inverse_rms, r, run, scale);
            for (int64_t c = 0; c < width; ++c) {
                store(call.output, r, run * width + c,
                      value(call.input, r, run * width + c) * scale * call.gain.data[c]);
            }
        }
    }
}

template <class Call>
void copy_stream(const Call& call) {
    for (int64_t r = 0; r < call.copy.rows; ++r) {
        for (int64_t c = 0; c < call.copy.columns; ++c) {
            store(call.copy, r, c, value(call.d_stream, r, c));
        }
    }
    for (size_t grain = 0; grain < call.copy_sums.size(); ++grain) {
        add_column_sums(call.copy, call.grains[grain], call.copy_sums[grain]);
    }
}

void compute(const op::RmsNormBackward& call) {
    const int64_t width = call.gain.columns;
    for (size_t grain = 0; grain < call.d_gain.size(); ++grain) {
        const auto& [first, rows] = call.grains[grain];
        for (int64_t c = 0; c < width; ++c) {
            double sum = 0;
            for (int64_t r = first; r < first + rows; ++r) {
                for (int64_t run = 0; run < call.input.columns / width; ++run) {
                    const int64_t column = run * width + c;
                    sum +=
                        value(call.d_output, r, column) * value(call.input, r, column) * call.inverse_rms.row(r)[run];
                }
            }
            add(call.d_gain[grain], 0, c, sum);
        }
    }
    all_rms_norm_input_grads(call, [&](int64_t r, int64_t c, double x) {
        if (call.d_stream.empty()) {
            store(call.d_input, r, c, x);
        } else {
            store(call.d_stream, r, c, value(call.d_stream, r, c) + x);
        }
    });
    copy_stream(call);
}

void compute(const op::LayerNorm& call) {
    const auto count = static_cast<double>(call.input.columns);
    for (int64_t r = 0; r < call.input.rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < call.input.columns; ++c) {
            sum += value(call.input, r, c);
        }
        const double center = sum / count;
        double squares = 0;
        for (int64_t c = 0; c < call.input.columns; ++c) {
            squares += (value(call.input, r, c) - center) * (value(call.input, r, c) - center);
        }
        const double scale = 1 / std::sqrt(squares / count + call.epsilon);
        store(call.mean, r, 0, center);
        store(call.inverse_deviation, r, 0, scale);
        for (int64_t c = 0; c < call.input.columns; ++c) {
            store(call.output, r, c,
                  (value(call.input, r, c) - center) * scale * call.gain.data[c] + call.bias.data[c]);
        }
    }
}

void compute(const op::LayerNormBackward& call) {
    for (size_t grain = 0; grain < call.grains.size(); ++grain) {
        const auto& [first, rows] = call.grains[grain];
        for (int64_t c = 0; c < call.input.columns; ++c) {
            double gain_sum = 0;
            double bias_sum = 0;
            for (int64_t r = first; r < first + rows; ++r) {
                const double x = (value(call.input, r, c) - call.mean.row(r)[0]) * call.inverse_deviation.row(r)[0];
                gain_sum += value(call.d_output, r, c) * x;
                bias_sum += value(call.d_output, r, c);
            }
            if (!call.d_gain.empty()) {
                add(call.d_gain[grain], 0, c, gain_sum);
            }
            if (!call.d_bias.empty()) {
                add(call.d_bias[grain], 0, c, bias_sum);
            }
        }
    }
    for (int64_t r = 0; r < call.input.rows; ++r) {
        norm_input_grad(call.d_output, call.input, call.gain, r, 0, call.mean.row(r)[0],
                        call.inverse_deviation.row(r)[0], 1,
                        [&](int64_t c, double x) { store(call.d_stream, r, c, value(call.d_stream, r, c) + x); });
    }
    copy_stream(call);
}

}  // namespace accrue::reference
