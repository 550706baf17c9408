#include <bit>
#include <cmath>

#include "accrue/kernels/conformance.h"
#include "accrue/kernels/one_by_one.h"

namespace accrue::conformance {
namespace {

// One row of rows * in numbers, as parameters lie in memory.
Matrix flat(const Case& tried, uint64_t seed) {
    Case packed = fixed(tried);
    packed.gap = 0;
    packed.integers = false;
    return Matrix::random(packed, DType::fp32, seed, 1, tried.rows * tried.in);
}

// A window's sum and the mean gradient that reads it.
struct Mean {
    Sum sum;
    MeanView view;

    explicit Mean(Case tried) : sum(without_probe(tried), 1, tried.rows, tried.in) {
        view = {.kind = sum.view().kind,
                .data = sum.view().data,
                .elements = sum.view().elements(),
                .factor = (tried.sums == SumKind::exact ? 1 / sum.view().per_unit : 1) / 3};
    }
    static Case without_probe(Case tried) {
        tried.probe = false;
        tried.integers = false;
        return tried;
    }
};

// The copy in the dtype of the case, poisoned; the case without gaps keeps none.
Matrix copy_of(const Case& tried) {
    Case packed = tried;
    packed.gap = 0;
    return Matrix::poison(packed, tried.dtype, 1, tried.rows * tried.in);
}

// The copy must be the device's own weight, rounded: compared with nothing but itself.
Outcome roundings(Matrix& weights, const Matrix& copy) {
    Outcome outcome{.name = "copy minus rounded weight", .values = {}};
    Matrix rounded = copy;
    for (int64_t i = 0; i < weights.columns(); ++i) {
        rounded.set(0, i, weights.at(0, i));
        outcome.values.push_back(copy.at(0, i) - rounded.at(0, i));
    }
    return outcome;
}

Outcomes squared_norm(Kernels& kernels, const Case& tried) {
    const Mean mean(tried);
    // Squares of elements that were rounded to fp32 first are off by 1e-7.
    return {{.name = "squared norm", .values = {one_by_one::squared_norm(kernels, mean.view)}, .relative = 1e-6}};
}

Outcomes adamw(Kernels& kernels, const Case& tried) {
    const Mean mean(tried);
    Matrix weights = flat(tried, 2);
    Matrix first_moment = flat(tried, 3);
    Matrix second_moment = flat(tried, 4);
    for (int64_t i = 0; i < second_moment.columns(); ++i) {
        second_moment.set(0, i, std::abs(second_moment.at(0, i)) + 0.01);
    }
    Matrix copy = copy_of(tried);
    const AdamWSettings settings{.rate = 0.25F,
                                 .beta1 = 0.9F,
                                 .beta2 = 0.95F,
                                 .epsilon = 1e-8F,
                                 .decay = 0.1F,
                                 .correction1 = 1.7F,
                                 .correction2 = 2.3F};
    kernels.run(op::UpdateAdamW{mean.view, settings, weights.floats(), first_moment.floats(), second_moment.floats(),
                                copy.any()});
    Matrix again = weights;
    kernels.run(
        op::UpdateAdamW{mean.view, settings, again.floats(), first_moment.floats(), second_moment.floats(), {}});
    const Case plain = inexact(tried);
    return {compared(plain, "weights", weights), compared(plain, "weights after two steps", again),
            compared(plain, "first moment", first_moment), compared(plain, "second moment", second_moment),
            roundings(weights, copy)};
}

// A tensor's moments in 8 bits, with random codes and scales.
struct CodedState {
    std::vector<uint8_t> first;
    std::vector<uint8_t> second;
    std::vector<float> first_scales;
    std::vector<float> second_scales;

    explicit CodedState(const Case& tried) {
        for (uint64_t i = 0; i < static_cast<uint64_t>(tried.rows * tried.in); ++i) {
            first.push_back(static_cast<uint8_t>(mix(5, i) % 255 - 127));
            second.push_back(static_cast<uint8_t>(mix(6, i)));
        }
        for (int64_t block = 0; block < moment_blocks(tried.rows * tried.in); ++block) {
            first_scales.push_back(0.5F + uniform(mix(7, static_cast<uint64_t>(block))));
            second_scales.push_back(0.5F + uniform(mix(8, static_cast<uint64_t>(block))));
        }
    }
    [[nodiscard]] CodedMoments moments() {
        return {.first = {first.data(), first_scales.data()},
                .second = {second.data(), second_scales.data()},
                .rounding_key = 99};
    }
    // A code may fall on the other side of its chance where fp32 differs in its last place.
    void append_to(Outcomes& outcomes) const {
        Outcome codes{.name = "first codes", .values = {}, .at_least = 1};
        for (const uint8_t code : first) {
            codes.values.push_back(std::bit_cast<int8_t>(code));
        }
        outcomes.push_back(codes);
        outcomes.push_back({.name = "second codes", .values = {second.begin(), second.end()}, .at_least = 1});
        outcomes.push_back(
            {.name = "first scales", .values = {first_scales.begin(), first_scales.end()}, .relative = 1e-5});
        outcomes.push_back(
            {.name = "second scales", .values = {second_scales.begin(), second_scales.end()}, .relative = 1e-5});
    }
};

Outcomes adamw_8bit(Kernels& kernels, const Case& tried) {
    const Mean mean(tried);
    Matrix weights = flat(tried, 2);
    Matrix copy = copy_of(tried);
    CodedState state(tried);
    const AdamWSettings settings{.rate = 0.25F,
                                 .beta1 = 0.9F,
                                 .beta2 = 0.95F,
                                 .epsilon = 1e-3F,  // some codes are 0
                                 .decay = 0.1F,
                                 .correction1 = 1.7F,
                                 .correction2 = 2.3F};
    kernels.run(op::UpdateAdamW8Bit{mean.view, settings, weights.floats(), state.moments(), copy.any()});
    Outcomes outcomes{compared(inexact(tried), "weights", weights), roundings(weights, copy)};
    state.append_to(outcomes);
    return outcomes;
}

Outcomes sgd_8bit(Kernels& kernels, const Case& tried) {
    const Mean mean(tried);
    Matrix weights = flat(tried, 2);
    Matrix copy = copy_of(tried);
    CodedState state(tried);
    kernels.run(op::UpdateSgd8Bit{mean.view,
                                  {.rate = 0.25F, .momentum = 0.9F, .decay = 0.1F, .kind = SgdSettings::Kind::nesterov},
                                  weights.floats(),
                                  state.moments(),
                                  copy.any()});
    Outcomes outcomes{compared(inexact(tried), "weights", weights), roundings(weights, copy)};
    state.append_to(outcomes);
    return outcomes;
}

Outcomes sgd(Kernels& kernels, const Case& tried, SgdSettings settings) {
    const Mean mean(tried);
    Matrix weights = flat(tried, 2);
    Matrix velocity = flat(tried, 3);
    Matrix copy = copy_of(tried);
    settings.rate = 0.25F;
    settings.decay = 0.1F;
    kernels.run(op::UpdateSgd{mean.view, settings, weights.floats(),
                              settings.momentum == 0 ? View<float>() : velocity.floats(), copy.any()});
    return {compared(inexact(tried), "weights", weights), compared(inexact(tried), "velocity", velocity),
            roundings(weights, copy)};
}

Outcomes plain_sgd(Kernels& kernels, const Case& tried) {
    return sgd(kernels, tried, {});
}

Outcomes momentum_sgd(Kernels& kernels, const Case& tried) {
    return sgd(kernels, tried, {.momentum = 0.9F});
}

Outcomes nesterov_sgd(Kernels& kernels, const Case& tried) {
    return sgd(kernels, tried, {.momentum = 0.9F, .kind = SgdSettings::Kind::nesterov});
}

}  // namespace

std::vector<Operation> optimizer_operations() {
    return {
        {"squared_norm", squared_norm, sum_cases()}, {"adamw", adamw, sum_cases()},
        {"adamw_8bit", adamw_8bit, sum_cases()},     {"sgd", plain_sgd, sum_cases()},
        {"sgd_momentum", momentum_sgd, sum_cases()}, {"sgd_nesterov", nesterov_sgd, sum_cases()},
        {"sgd_8bit", sgd_8bit, sum_cases()},
    };
}

}  // namespace accrue::conformance
