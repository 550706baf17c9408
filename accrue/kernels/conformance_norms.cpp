#include <cmath>

#include "accrue/kernels/conformance.h"

namespace accrue::conformance {
namespace {

constexpr float kEpsilon = 1e-5F;

// Runs per row: one, or as many as a row has heads.
int64_t runs_of(const Case& tried) {
    return tried.gap == 0 ? 1 : 3;
}

Matrix gain_of(const Case& tried) {
    return Matrix::random(fixed(tried), DType::fp32, 2, 1, tried.in);
}

// Positive numbers, in place of what the forward pass stored.
Matrix scales_of(const Case& tried, int64_t columns) {
    Matrix scales = Matrix::random(tried, DType::fp32, 3, tried.rows, columns);
    for (int64_t r = 0; r < tried.rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
            scales.set(r, c, std::abs(scales.at(r, c)) + 1);
        }
    }
    return scales;
}

Outcomes rms_norm(Kernels& kernels, const Case& tried) {
    const int64_t columns = tried.in * runs_of(tried);
    Matrix input = Matrix::random(tried, tried.dtype, 1, tried.rows, columns);
    Matrix gain = gain_of(tried);
    Matrix output = Matrix::poison(tried, tried.output_dtype, tried.rows, columns);
    Matrix inverse_rms = Matrix::poison(tried, DType::fp32, tried.rows, runs_of(tried));
    kernels.run(op::RmsNorm{input.any(), gain.floats(), kEpsilon, output.any(), inverse_rms.floats()});
    return {by_row(inexact(tried), "output", output), by_row(inexact(tried), "inverse_rms", inverse_rms)};
}

// What both grains of a case add to, one sum each.
struct GrainSums {
    std::vector<Sum> sums;
    std::vector<SumView> views;

    GrainSums(const Case& tried, uint64_t seed) {
        for (uint64_t grain = 0; grain < 2; ++grain) {
            views.push_back(sums.emplace_back(tried, seed + grain, 1, tried.in).view());
        }
    }
    void append_to(Outcomes& outcomes, const Case& tried, const std::string& name) const {
        for (const Sum& sum : sums) {
            append(outcomes, tried, name, sum);
        }
    }
};

// Once written, without sums; once added to the stream, with sums.
Outcomes rms_norm_backward(Kernels& kernels, const Case& tried) {
    const int64_t columns = tried.in * runs_of(tried);
    Matrix d_output = random_gradient(tried, tried.dtype, 4, tried.rows, columns);
    Matrix input = Matrix::random(tried, tried.dtype, 1, tried.rows, columns);
    Matrix gain = gain_of(tried);
    Matrix inverse_rms = scales_of(tried, runs_of(tried));
    Matrix d_input = Matrix::poison(tried, tried.output_dtype, tried.rows, columns);
    Matrix stream = Matrix::random(tried, DType::fp32, 5, tried.rows, columns);
    const GrainSums d_gain(tried, 6);
    const std::vector<RowRange> grains = two_grains(tried);
    op::RmsNormBackward call{.d_output = d_output.any(),
                             .input = input.any(),
                             .gain = gain.floats(),
                             .inverse_rms = inverse_rms.floats(),
                             .d_input = d_input.any(),
                             .d_stream = {},
                             .grains = grains,
                             .d_gain = {}};
    kernels.run(call);
    call.d_input = {};
    call.d_stream = stream.floats();
    call.d_gain = d_gain.views;
    kernels.run(call);
    Outcomes outcomes;
    if (!tried.broken) {
        outcomes = {by_row(inexact(tried), "d_input", d_input), by_row(inexact(tried), "stream", stream)};
    }
    d_gain.append_to(outcomes, tried, "d_gain");
    return outcomes;
}

// Rows with means far from 0, where the mean of squares minus the square of the mean would lose the variance.
Matrix shifted_rows(const Case& tried) {
    Matrix input = Matrix::random(tried, DType::fp32, 1, tried.rows, tried.in);
    for (int64_t r = 0; r < tried.rows; ++r) {
        for (int64_t c = 0; c < tried.in; ++c) {
            input.set(r, c, input.at(r, c) + static_cast<double>((tried.first_row + r) % 5) * 8);
        }
    }
    return input;
}

Outcomes layer_norm(Kernels& kernels, const Case& tried) {
    Matrix input = shifted_rows(tried);
    Matrix gain = gain_of(tried);
    Matrix bias = Matrix::random(fixed(tried), DType::fp32, 7, 1, tried.in);
    Matrix output = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    Matrix mean = Matrix::poison(tried, DType::fp32, tried.rows, 1);
    Matrix inverse_deviation = Matrix::poison(tried, DType::fp32, tried.rows, 1);
    kernels.run(op::LayerNorm{input.floats(), gain.floats(), bias.floats(), kEpsilon, output.any(), mean.floats(),
                              inverse_deviation.floats()});
    Outcomes outcomes{by_row(inexact(tried), "output", output), by_row(inexact(tried), "mean", mean),
                      by_row(inexact(tried), "inverse_deviation", inverse_deviation)};
    outcomes[0].of_typical = 1e-4;  // a mean of 32 has an error of 2e-6, which a deviation below 1 makes larger
    return outcomes;
}

Outcomes layer_norm_backward(Kernels& kernels, const Case& tried) {
    Matrix d_output = random_gradient(tried, tried.dtype, 4, tried.rows, tried.in);
    Matrix input = Matrix::random(tried, DType::fp32, 1, tried.rows, tried.in);
    Matrix gain = gain_of(tried);
    Matrix mean = Matrix::random(tried, DType::fp32, 8, tried.rows, 1);
    Matrix inverse_deviation = scales_of(tried, 1);
    Matrix stream = Matrix::random(tried, DType::fp32, 5, tried.rows, tried.in);
    const GrainSums d_gain(tried, 6);
    const GrainSums d_bias(tried, 9);
    const std::vector<RowRange> grains = two_grains(tried);
    kernels.run(op::LayerNormBackward{.d_output = d_output.any(),
                                      .input = input.floats(),
                                      .gain = gain.floats(),
                                      .mean = mean.floats(),
                                      .inverse_deviation = inverse_deviation.floats(),
                                      .d_stream = stream.floats(),
                                      .grains = grains,
                                      .d_gain = d_gain.views,
                                      .d_bias = d_bias.views});
    Outcomes outcomes;
    if (!tried.broken) {
        outcomes.push_back(by_row(inexact(tried), "stream", stream));
    }
    d_gain.append_to(outcomes, tried, "d_gain");
    d_bias.append_to(outcomes, tried, "d_bias");
    return outcomes;
}

// The stream's gradient, rounded too, and the sums of that.
Outcomes norm_backward_with_sums(Kernels& kernels, const Case& tried) {
    Matrix d_output = random_gradient(tried, tried.dtype, 4, tried.rows, tried.in);
    Matrix input = Matrix::random(tried, DType::fp32, 1, tried.rows, tried.in);
    Matrix gain = gain_of(tried);
    Matrix mean = Matrix::random(tried, DType::fp32, 8, tried.rows, 1);
    Matrix scales = scales_of(tried, 1);
    const GrainSums d_gain(tried, 6);
    Outcomes outcomes;
    const auto compare = [&](const EarlySums& sums, Matrix& stream, Matrix& copy) {
        if (!tried.broken) {
            outcomes.push_back(by_row(tried, "stream", stream));
            outcomes.push_back(by_row(tried, "copy", copy));
        }
        sums.compare(kernels, copy.any(), outcomes);
    };
    for (const bool with_gain : {true, false}) {
        const EarlySums sums(tried, 9, tried.in);
        Matrix stream = Matrix::random(tried, DType::fp32, 5, tried.rows, tried.in);
        Matrix copy = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
        kernels.run(op::LayerNormBackward{
            .d_output = d_output.any(),
            .input = input.floats(),
            .gain = gain.floats(),
            .mean = mean.floats(),
            .inverse_deviation = scales.floats(),
            .d_stream = stream.floats(),
            .grains = sums.grains(),
            .d_gain = with_gain ? std::span<const SumView>(d_gain.views) : std::span<const SumView>(),
            .d_bias = {},
            .copy = copy.any(),
            .copy_sums = sums.views()});
        compare(sums, stream, copy);
    }
    const EarlySums sums(tried, 9, tried.in);
    Matrix stream = Matrix::random(tried, DType::fp32, 5, tried.rows, tried.in);
    Matrix copy = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    kernels.run(op::RmsNormBackward{.d_output = d_output.any(),
                                    .input = input.any(),
                                    .gain = gain.floats(),
                                    .inverse_rms = scales.floats(),
                                    .d_input = {},
                                    .d_stream = stream.floats(),
                                    .grains = sums.grains(),
                                    .d_gain = d_gain.views,
                                    .copy = copy.any(),
                                    .copy_sums = sums.views()});
    compare(sums, stream, copy);
    return outcomes;
}

}  // namespace

std::vector<Operation> norm_operations() {
    return {
        {"rms_norm", rms_norm, usual_cases()},
        {"rms_norm_backward", rms_norm_backward, sum_cases()},
        {"layer_norm", layer_norm, usual_cases()},
        {"layer_norm_backward", layer_norm_backward, sum_cases()},
        {"norm_backward_with_sums", norm_backward_with_sums, early_sum_cases()},
    };
}

}  // namespace accrue::conformance
