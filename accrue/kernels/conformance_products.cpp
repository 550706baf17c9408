#include "tests/sanitized.h"

#include "accrue/kernels/conformance.h"

namespace accrue::conformance {
namespace {

Matrix weight_of(const Case& tried) {
    const bool out_first = tried.layout == WeightLayout::out_in;
    return Matrix::random(fixed(tried), tried.fp32_weight ? DType::fp32 : tried.dtype, 2,
                          out_first ? tried.out : tried.in, out_first ? tried.in : tried.out);
}

Matrix bias_of(const Case& tried) {
    return Matrix::random(fixed(tried), DType::fp32, 3, 1, tried.out);
}

// Every third row of a weight of `rows` rows is held back, the last one first.
std::vector<int32_t> slots_of(int64_t rows) {
    std::vector<int32_t> slots(static_cast<size_t>(rows), -1);
    int32_t slot = 0;
    for (int64_t r = rows - 1; r >= 0; r -= 3) {
        slots[static_cast<size_t>(r)] = slot++;
    }
    return slots;
}

Outcomes linear(Kernels& kernels, const Case& tried) {
    Matrix input = Matrix::random(tried, tried.dtype, 1, tried.rows, tried.in);
    Matrix weight = weight_of(tried);
    Matrix bias = bias_of(tried);
    Matrix output = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.out);
    Matrix without_bias = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.out);
    kernels.linear(input.any(), {weight.any(), tried.layout}, bias.floats(), output.any());
    kernels.linear(input.any(), {weight.any(), tried.layout}, {}, without_bias.any());
    return {by_row(tried, "output", output), by_row(tried, "output without bias", without_bias)};
}

Outcomes linear_residual(Kernels& kernels, const Case& tried) {
    const Mask mask(tried, 5);
    Matrix input = Matrix::random(tried, tried.dtype, 1, tried.rows, tried.in);
    Matrix weight = weight_of(tried);
    Matrix bias = bias_of(tried);
    Matrix residual = Matrix::random(tried, DType::fp32, 4, tried.rows, tried.out);
    Matrix output = Matrix::poison(tried, DType::fp32, tried.rows, tried.out);
    Matrix without_bias = Matrix::poison(tried, DType::fp32, tried.rows, tried.out);
    kernels.linear_residual(input.any(), {weight.any(), tried.layout}, bias.floats(), mask.dropout, residual.floats(),
                            output.floats());
    kernels.linear_residual(input.any(), {weight.any(), tried.layout}, {}, mask.dropout, residual.floats(),
                            without_bias.floats());
    return {by_row(tried, "output", output), by_row(tried, "output without bias", without_bias)};
}

Outcomes linear_input_grad(Kernels& kernels, const Case& tried) {
    Matrix d_output = Matrix::random(tried, tried.dtype, 1, tried.rows, tried.out);
    Matrix weight = weight_of(tried);
    Matrix d_input = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    kernels.linear_input_grad(d_output.any(), {weight.any(), tried.layout}, d_input.any());
    return {by_row(tried, "d_input", d_input)};
}

Outcomes add_linear_weight_grad(Kernels& kernels, const Case& tried) {
    Matrix d_output = random_gradient(tried, tried.dtype, 1, tried.rows, tried.out);
    Matrix input = Matrix::random(tried, tried.dtype, 2, tried.rows, tried.in);
    const bool out_first = tried.layout == WeightLayout::out_in;
    Sum sum(tried, 3, out_first ? tried.out : tried.in, out_first ? tried.in : tried.out);
    if (!tried.held) {
        kernels.add_linear_weight_grad(d_output.any(), input.any(), tried.layout, sum.view(), {});
        Outcomes outcomes;
        append(outcomes, tried, "d_weight", sum);
        return outcomes;
    }
    const std::vector<int32_t> slots = slots_of(tried.out);
    Matrix held = Matrix::poison(tried, DType::fp32, (tried.out + 2) / 3, tried.in);
    kernels.add_linear_weight_grad(d_output.any(), input.any(), tried.layout, sum.view(), {slots, held.floats()});
    Outcomes outcomes{compared(tried, "held", held)};
    append(outcomes, tried, "d_weight", sum);
    return outcomes;
}

// More of them than a device may want to keep, with a bias in between; the input's gradient then completes all.
Outcomes start_linear_weight_grad(Kernels& kernels, const Case& tried) {
    Matrix d_output = random_gradient(tried, tried.dtype, 1, tried.rows, tried.out);
    Matrix input = Matrix::random(tried, tried.dtype, 2, tried.rows, tried.in);
    Matrix weight = weight_of(tried);
    Matrix other_d_output = Matrix::random(tried, tried.dtype, 4, tried.rows, tried.out);
    Matrix d_input = Matrix::poison(tried, DType::fp32, tried.rows, tried.in);
    const std::vector<int32_t> slots = tried.held ? slots_of(tried.out) : std::vector<int32_t>{};
    Matrix held = Matrix::poison(tried, DType::fp32, (tried.out + 2) / 3, tried.in);
    const bool out_first = tried.layout == WeightLayout::out_in;
    constexpr uint64_t kSums = 5;
    Sum bias(tried, 20, 1, tried.out);
    std::vector<Sum> sums;
    for (uint64_t i = 0; i < kSums; ++i) {
        if (i == 1) {
            kernels.add_bias_grad(d_output.any(), bias.view());
        }
        const Sum& sum =
            sums.emplace_back(tried, 10 + i, out_first ? tried.out : tried.in, out_first ? tried.in : tried.out);
        const bool last = i + 1 == kSums;
        kernels.start_linear_weight_grad(d_output.any(), input.any(), tried.layout, sum.view(),
                                         last && tried.held ? HeldRows{slots, held.floats()} : HeldRows{});
    }
    kernels.start_linear_weight_grad(d_output.any(), input.any(), tried.layout, sums.back().view(), {});  // once more
    kernels.linear_input_grad(other_d_output.any(), {weight.any(), tried.layout}, d_input.any());
    Outcomes outcomes{compared(tried, "d_input", d_input)};
    append(outcomes, tried, "d_bias", bias);
    for (const Sum& sum : sums) {
        append(outcomes, tried, "d_weight", sum);
    }
    if (tried.held) {
        outcomes.push_back(compared(tried, "held", held));
    }
    return outcomes;
}

Outcomes add_bias_grad(Kernels& kernels, const Case& tried) {
    Matrix d_output = random_gradient(tried, tried.dtype, 1, tried.rows, tried.out);
    Sum sum(tried, 3, 1, tried.out);
    kernels.add_bias_grad(d_output.any(), sum.view());
    Outcomes outcomes;
    append(outcomes, tried, "d_bias", sum);
    return outcomes;
}

// Shapes that are long in one or two directions, so that a device has to cut them up.
std::vector<Case> long_and(std::vector<Case> cases) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        cases.push_back({.dtype = dtype, .rows = 3, .in = 2100, .out = 50});
        cases.push_back({.dtype = dtype, .rows = 2100, .in = 20, .out = 30});
        cases.push_back({.dtype = dtype, .rows = 1600, .in = 1030, .out = 1, .held = true, .integers = true});
        cases.push_back({.dtype = dtype, .rows = 1, .in = 1030, .out = 1600, .held = true, .integers = true});
    }
    return cases;
}

// Under a sanitizer every third case, for an operation that computes many products.
std::vector<Case> some_of(const std::vector<Case>& cases) {
    constexpr size_t kEach = kSanitized ? 3 : 1;
    std::vector<Case> some;
    for (size_t i = 0; i < cases.size(); i += kEach) {
        some.push_back(cases[i]);
    }
    return some;
}

// Long shapes too, and bf16 with weights in fp32.
std::vector<Case> weight_cases() {
    std::vector<Case> cases = long_and(usual_cases());
    for (Case tried : long_and(usual_cases())) {
        if (tried.dtype == DType::bf16) {
            tried.fp32_weight = true;
            cases.push_back(tried);
        }
    }
    return cases;
}

}  // namespace

std::vector<Operation> product_operations() {
    return {
        {"linear", linear, weight_cases()},
        {"linear_residual", linear_residual, weight_cases()},
        {"linear_input_grad", linear_input_grad, weight_cases()},
        {"add_linear_weight_grad", add_linear_weight_grad, long_and(sum_cases())},
        {"start_linear_weight_grad", start_linear_weight_grad, some_of(sum_cases())},
        {"add_bias_grad", add_bias_grad, sum_cases()},
    };
}

}  // namespace accrue::conformance
