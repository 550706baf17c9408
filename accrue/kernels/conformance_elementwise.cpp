#include <cmath>

#include "accrue/kernels/conformance.h"

namespace accrue::conformance {
namespace {

// Exponentials of whole numbers are no whole numbers.
Outcome inexact(Case tried, const std::string& name, const Matrix& matrix) {
    tried.integers = false;
    return by_row(tried, name, matrix);
}

Outcomes gelu(Kernels& kernels, const Case& tried) {
    Matrix input = Matrix::random(tried, tried.dtype, 1, tried.rows, tried.in);
    Matrix output = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    kernels.run(op::Gelu{input.any(), output.any()});
    return {inexact(tried, "output", output)};
}

Outcomes gelu_grad(Kernels& kernels, const Case& tried) {
    Matrix input = Matrix::random(tried, tried.dtype, 1, tried.rows, tried.in);
    Matrix d_output = Matrix::random(tried, tried.dtype, 2, tried.rows, tried.in);
    Matrix d_input = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    kernels.run(op::GeluGrad{d_output.any(), input.any(), d_input.any()});
    kernels.run(op::GeluGrad{d_output.any(), input.any(), d_output.any()});
    return {inexact(tried, "d_input", d_input), inexact(tried, "d_input in place", d_output)};
}

// In place, as a model has it.
Outcomes gelu_grad_with_sums(Kernels& kernels, const Case& tried) {
    Matrix input = Matrix::random(tried, tried.dtype, 1, tried.rows, tried.in);
    Matrix gradient = random_gradient(tried, tried.dtype, 2, tried.rows, tried.in);
    const EarlySums sums(tried, 3, tried.in);
    kernels.run(op::GeluGrad{.d_output = gradient.any(),
                             .input = input.any(),
                             .d_input = gradient.any(),
                             .grains = sums.grains(),
                             .d_bias = sums.views()});
    Outcomes outcomes;
    if (!tried.broken) {
        outcomes.push_back(inexact(tried, "d_input", gradient));
    }
    sums.compare(kernels, gradient.any(), outcomes);
    return outcomes;
}

Outcomes swiglu(Kernels& kernels, const Case& tried) {
    Matrix gate_up = Matrix::random(tried, tried.dtype, 1, tried.rows, 2 * tried.in);
    Matrix output = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    kernels.run(op::Swiglu{gate_up.any(), output.any()});
    return {inexact(tried, "output", output)};
}

Outcomes swiglu_grad(Kernels& kernels, const Case& tried) {
    Matrix gate_up = Matrix::random(tried, tried.dtype, 1, tried.rows, 2 * tried.in);
    Matrix d_output = Matrix::random(tried, tried.dtype, 2, tried.rows, tried.in);
    Matrix d_gate_up = Matrix::poison(tried, tried.output_dtype, tried.rows, 2 * tried.in);
    kernels.run(op::SwigluGrad{d_output.any(), gate_up.any(), d_gate_up.any()});
    return {inexact(tried, "d_gate_up", d_gate_up)};
}

// Far out, exponentials overflow and vanish; the activations must not.
Outcomes activations_far_from_zero(Kernels& kernels, const Case& tried) {
    constexpr double kFar[] = {0, -0.0, 5, -5, 20, -20, 88, -88, 200, -200, 1e4, -1e4, 1e15, -1e15};
    const auto count = static_cast<int64_t>(std::size(kFar));
    Matrix input = Matrix::poison(tried, tried.dtype, 1, 2 * count);
    Matrix ones = Matrix::poison(tried, tried.dtype, 1, 2 * count);
    for (int64_t c = 0; c < 2 * count; ++c) {
        input.set(0, c, c < count ? kFar[c] : 1);
        ones.set(0, c, 1);
    }
    Matrix output = Matrix::poison(tried, tried.output_dtype, 1, 2 * count);
    Matrix d_input = Matrix::poison(tried, tried.output_dtype, 1, 2 * count);
    Matrix product = Matrix::poison(tried, tried.output_dtype, 1, count);
    Matrix d_gate_up = Matrix::poison(tried, tried.output_dtype, 1, 2 * count);
    kernels.run(op::Gelu{input.any(), output.any()});
    kernels.run(op::GeluGrad{ones.any(), input.any(), d_input.any()});
    kernels.run(op::Swiglu{input.any(), product.any()});
    kernels.run(op::SwigluGrad{ones.any().slice_columns(0, count), input.any(), d_gate_up.any()});
    Outcomes outcomes;
    for (const auto& [name, matrix] : std::initializer_list<std::pair<std::string, const Matrix&>>{
             {"gelu", output}, {"gelu_grad", d_input}, {"swiglu", product}, {"swiglu_grad", d_gate_up}}) {
        outcomes.push_back(compared(tried, name, matrix));
        outcomes.back().of_typical = 0;
        outcomes.back().at_least = 2e-5;
    }
    return outcomes;
}

Outcomes cast(Kernels& kernels, const Case& tried) {
    const Mask mask(tried, 4);
    Matrix input = Matrix::random(tried, DType::fp32, 1, tried.rows, tried.in);
    Matrix output = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    Matrix copy = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    kernels.run(op::Cast{input.floats(), mask.dropout, output.any()});
    kernels.run(op::Cast{input.floats(), {}, copy.any()});
    Outcomes outcomes{by_row(tried, "output", output), by_row(tried, "copy", copy)};
    outcomes[1].relative = 0;
    outcomes[1].of_typical = 0;
    return outcomes;
}

Outcomes moving(Kernels& kernels, const Case& tried) {
    Case packed = tried;
    packed.gap = 0;
    Matrix source = Matrix::random(packed, DType::fp32, 1, tried.rows, tried.in);
    Matrix target = Matrix::poison(packed, DType::fp32, tried.rows, tried.in);
    Matrix zeros = Matrix::random(packed, DType::fp32, 1, tried.rows, tried.in);
    Matrix host = Matrix::poison(packed, DType::fp32, tried.rows, tried.in);
    const auto bytes = static_cast<size_t>(tried.rows * tried.in * 4);
    const auto bytes_of_matrix = [&](Matrix& matrix) {
        return std::span(static_cast<std::byte*>(matrix.any().data), bytes);
    };
    kernels.run(op::Upload{.host = bytes_of_matrix(source), .device = bytes_of_matrix(target)});
    kernels.run(op::FillZero{bytes_of_matrix(zeros)});
    kernels.run(op::Download{.device = bytes_of_matrix(source), .host = bytes_of_matrix(host)});
    return {{.name = "uploaded", .values = target.values()},
            {.name = "zeros", .values = zeros.values()},
            {.name = "downloaded", .values = host.values()}};
}

Outcomes add_gradient(Kernels& kernels, const Case& tried) {
    Case packed = tried;
    packed.gap = 0;
    Matrix values = random_gradient(packed, DType::fp32, 1, tried.rows, tried.in);
    const Sum sum(tried, 3, tried.rows, tried.in);
    kernels.run(op::AddGradient{.values = values.floats(), .sum = sum.view()});
    Outcomes outcomes;
    append(outcomes, tried, "sum", sum);
    return outcomes;
}

// Among them sums that wrap.
Outcomes add_sums(Kernels& kernels, const Case& tried) {
    const auto count = static_cast<size_t>(tried.rows * tried.in);
    std::vector<int64_t> sums(count);
    std::vector<int64_t> others(count);
    for (size_t i = 0; i < count; ++i) {
        sums[i] = static_cast<int64_t>(mix(1, i));
        others[i] = static_cast<int64_t>(mix(2, i));
    }
    kernels.run(
        op::AddSums{.others = {others.data(), 1, std::ssize(others)}, .sums = {sums.data(), 1, std::ssize(sums)}});
    Outcome outcome{.name = "sums", .values = {}};
    for (const int64_t sum : sums) {
        outcome.values.push_back(static_cast<double>(sum >> 32));
        outcome.values.push_back(static_cast<double>(sum & 0xffffffff));
    }
    return {outcome};
}

}  // namespace

std::vector<Operation> elementwise_operations() {
    return {
        {"gelu", gelu, usual_cases()},
        {"gelu_grad", gelu_grad, usual_cases()},
        {"gelu_grad_with_sums", gelu_grad_with_sums, early_sum_cases()},
        {"swiglu", swiglu, usual_cases()},
        {"swiglu_grad", swiglu_grad, usual_cases()},
        {"activations_far_from_zero",
         activations_far_from_zero,
         {{.dtype = DType::fp32}, {.dtype = DType::bf16, .output_dtype = DType::bf16}}},
        {"cast", cast, usual_cases()},
        {"moving", moving, usual_cases()},
        {"add_gradient", add_gradient, sum_cases()},
        {"add_sums", add_sums, usual_cases()},
    };
}

}  // namespace accrue::conformance
