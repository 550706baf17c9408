#include "tests/sanitized.h"

#include "accrue/kernels/conformance.h"
#include "accrue/kernels/one_by_one.h"

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
    kernels.run(op::Linear{input.any(), {weight.any(), tried.layout}, bias.floats(), output.any()});
    kernels.run(op::Linear{input.any(), {weight.any(), tried.layout}, {}, without_bias.any()});
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
    kernels.run(op::LinearResidual{
        input.any(), {weight.any(), tried.layout}, bias.floats(), mask.dropout, residual.floats(), output.floats()});
    kernels.run(op::LinearResidual{
        input.any(), {weight.any(), tried.layout}, {}, mask.dropout, residual.floats(), without_bias.floats()});
    return {by_row(tried, "output", output), by_row(tried, "output without bias", without_bias)};
}

Outcomes linear_input_grad(Kernels& kernels, const Case& tried) {
    Matrix d_output = Matrix::random(tried, tried.dtype, 1, tried.rows, tried.out);
    Matrix weight = weight_of(tried);
    Matrix d_input = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    one_by_one::linear_input_grad(kernels, d_output.any(), {weight.any(), tried.layout}, d_input.any());
    return {by_row(tried, "d_input", d_input)};
}

Outcomes add_linear_weight_grad(Kernels& kernels, const Case& tried) {
    Matrix d_output = random_gradient(tried, tried.dtype, 1, tried.rows, tried.out);
    Matrix input = Matrix::random(tried, tried.dtype, 2, tried.rows, tried.in);
    const bool out_first = tried.layout == WeightLayout::out_in;
    Sum sum(tried, 3, out_first ? tried.out : tried.in, out_first ? tried.in : tried.out);
    if (!tried.held) {
        one_by_one::add_linear_weight_grad(kernels, d_output.any(), input.any(), tried.layout, sum.view());
        Outcomes outcomes;
        append(outcomes, tried, "d_weight", sum);
        return outcomes;
    }
    const std::vector<int32_t> slots = slots_of(tried.out);
    Matrix held = Matrix::poison(tried, DType::fp32, (tried.out + 2) / 3, tried.in);
    one_by_one::add_linear_weight_grad(kernels, d_output.any(), input.any(), tried.layout, sum.view(),
                                       {row_of(slots), held.floats()});
    Outcomes outcomes{compared(tried, "held", held)};
    append(outcomes, tried, "d_weight", sum);
    return outcomes;
}

// Two grains of a product with two parts and biases: more sums than a device may want to keep waiting.
Outcomes linear_backward(Kernels& kernels, const Case& tried) {
    const int64_t outputs[] = {(tried.out + 1) / 2, tried.out / 2};
    Matrix d_output = random_gradient(tried, tried.dtype, 1, tried.rows, tried.out);
    Matrix input = Matrix::random(tried, tried.dtype, 2, tried.rows, tried.in);
    Matrix weight = weight_of(tried);
    Matrix d_input = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.in);
    const std::vector<RowRange> grains = two_grains(tried);
    const bool out_first = tried.layout == WeightLayout::out_in;
    std::vector<Sum> sums;
    std::vector<SumView> weight_views[2];
    std::vector<SumView> bias_views[2];
    sums.reserve(4 * 2);
    uint64_t seed = 10;
    for (size_t part = 0; part < 2; ++part) {
        // Both grains go to one sum of the weight, with a record each, unless each addition rounds; and to sums of their own
        // of the bias.
        const auto weight_sum = [&]() -> const Sum& {
            return sums.emplace_back(tried, seed++, out_first ? outputs[part] : tried.in,
                                     out_first ? tried.in : outputs[part]);
        };
        const bool shared = tried.sums == SumKind::exact || tried.sums == SumKind::fp32;
        weight_views[part] = {weight_sum().view()};
        weight_views[part].push_back(weight_sum().view());
        if (shared) {
            weight_views[part].back().data = weight_views[part].front().data;
        }
        for (size_t grain = 0; grain < grains.size(); ++grain) {
            bias_views[part].push_back(sums.emplace_back(tried, seed++, 1, outputs[part]).view());
        }
    }
    const std::vector<op::LinearSums> parts{
        {.first_output = 0, .outputs = outputs[0], .weight = weight_views[0], .bias = bias_views[0]},
        {.first_output = outputs[0], .outputs = outputs[1], .weight = weight_views[1], .bias = bias_views[1]}};
    kernels.run(op::LinearBackward{.d_output = d_output.any(),
                                   .input = input.any(),
                                   .weight = {weight.any(), tried.layout},
                                   .d_input = d_input.any(),
                                   .grains = grains,
                                   .sums = std::span(parts).first(tried.out > 1 ? 2 : 1)});
    kernels.run(op::CompleteSums{});
    Outcomes outcomes;
    if (!tried.broken) {
        outcomes.push_back(by_row(tried, "d_input", d_input));
    }
    for (const Sum& sum : sums) {
        append(outcomes, tried, "sum", sum);
    }
    return outcomes;
}

// The head's: one sum, some rows of which are held back, before the gradient of the input.
Outcomes linear_backward_of_head(Kernels& kernels, const Case& tried) {
    Matrix d_output = random_gradient(tried, tried.dtype, 1, tried.rows, tried.out);
    Matrix input = Matrix::random(tried, tried.dtype, 2, tried.rows, tried.in);
    Matrix weight = Matrix::random(fixed(tried), tried.dtype, 4, tried.out, tried.in);
    Matrix d_input = Matrix::poison(tried, DType::fp32, tried.rows, tried.in);
    Matrix values = Matrix::poison(tried, DType::fp32, (tried.out + 2) / 3, tried.in);
    const std::vector<int32_t> slots = slots_of(tried.out);
    const Sum sum(tried, 3, tried.out, tried.in);
    const RowRange all{.first = 0, .rows = tried.rows};
    const op::LinearSums sums{.first_output = 0, .outputs = tried.out, .weight = std::span(&sum.view(), 1)};
    const HeldRows held{.slot_of_row = row_of(slots), .values = values.floats()};
    kernels.run(op::LinearBackward{.d_output = d_output.any(),
                                   .input = input.any(),
                                   .weight = {weight.any(), WeightLayout::out_in},
                                   .d_input = d_input.any(),
                                   .grains = std::span(&all, 1),
                                   .sums = std::span(&sums, 1),
                                   .held = std::span(&held, 1),
                                   .of = op::ProductOf::head});
    kernels.run(op::CompleteSums{});
    Outcomes outcomes{compared(tried, "held", values)};
    append(outcomes, tried, "d_weight", sum);
    if (!tried.broken) {
        outcomes.push_back(by_row(tried, "d_input", d_input));
    }
    return outcomes;
}

// Must be what the product and the activation give one after the other, to the bit.
Outcomes linear_activation(Kernels& kernels, const Case& tried) {
    Outcomes outcomes;
    for (const op::Activation activation : {op::Activation::gelu, op::Activation::swiglu}) {
        const bool gated = activation == op::Activation::swiglu;
        Case wide = tried;
        wide.out = gated ? 2 * tried.out : tried.out;
        wide.integers = false;
        Matrix input = Matrix::random(wide, wide.dtype, 1, wide.rows, wide.in);
        Matrix weight = weight_of(wide);
        Matrix bias = bias_of(wide);
        Matrix hidden = Matrix::poison(wide, wide.output_dtype, wide.rows, wide.out);
        Matrix activated = Matrix::poison(wide, wide.output_dtype, wide.rows, tried.out);
        Matrix apart = Matrix::poison(wide, wide.output_dtype, wide.rows, tried.out);
        kernels.run(op::LinearActivation{.input = input.any(),
                                         .weight = {weight.any(), wide.layout},
                                         .bias = bias.floats(),
                                         .activation = activation,
                                         .hidden = hidden.any(),
                                         .activated = activated.any()});
        if (gated) {
            kernels.run(op::Swiglu{.gate_up = hidden.any(), .output = apart.any()});
        } else {
            kernels.run(op::Gelu{.input = hidden.any(), .output = apart.any()});
        }
        outcomes.push_back(by_row(wide, "hidden", hidden));
        // The device is compared with nothing but itself.
        Outcome difference{.name = "fused minus apart", .values = activated.values()};
        const std::vector<double> parts = apart.values();
        for (size_t i = 0; i < parts.size(); ++i) {
            difference.values[i] -= parts[i];
        }
        outcomes.push_back(difference);
    }
    return outcomes;
}

Outcomes add_bias_grad(Kernels& kernels, const Case& tried) {
    Matrix d_output = random_gradient(tried, tried.dtype, 1, tried.rows, tried.out);
    Sum sum(tried, 3, 1, tried.out);
    one_by_one::add_bias_grad(kernels, d_output.any(), sum.view());
    Outcomes outcomes;
    append(outcomes, tried, "d_bias", sum);
    return outcomes;
}

// Shapes that are long in one or two directions, so that a device has to cut them up.
std::vector<Case> long_and(std::vector<Case> cases) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
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

// Long shapes too, and weights in fp32 beside what is narrower.
std::vector<Case> weight_cases() {
    std::vector<Case> cases = long_and(usual_cases());
    for (Case tried : long_and(usual_cases())) {
        if (tried.dtype != DType::fp32) {
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
        {"linear_backward", linear_backward, some_of(sum_cases())},
        {"linear_backward_of_head", linear_backward_of_head, some_of(sum_cases())},
        {"linear_activation", linear_activation, some_of(usual_cases())},
        {"add_bias_grad", add_bias_grad, sum_cases()},
    };
}

}  // namespace accrue::conformance
