#include <cmath>

#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {

void compute(const op::SquaredNorm& call) {
    double all = 0;
    for (const MeanView& gradient : call.gradients) {
        double sum = 0;
        for (int64_t i = 0; i < gradient.elements; ++i) {
            sum += value(gradient, i) * value(gradient, i);
        }
        all += sum;
    }
    *call.result.data = all;
}

void compute(const op::UpdateAdamW& call) {
    const auto& [rate, beta1, beta2, epsilon, decay, correction1, correction2] = call.settings;
    for (int64_t i = 0; i < call.gradient.elements; ++i) {
        const double g = value(call.gradient, i);
        const double weight = call.weights.data[i];
        const double m = call.first_moment.data[i] + (1.0 - beta1) * (g - call.first_moment.data[i]);
        const double v = call.second_moment.data[i] + (1.0 - beta2) * (g * g - call.second_moment.data[i]);
        const double step = m * correction1 / (std::sqrt(v * correction2) + epsilon);
        call.first_moment.data[i] = static_cast<float>(m);
        call.second_moment.data[i] = static_cast<float>(v);
        call.weights.data[i] = static_cast<float>(weight - rate * (step + decay * weight));
        if (!call.copy.empty()) {
            store(call.copy, 0, i, call.weights.data[i]);
        }
    }
}

void compute(const op::UpdateSgd& call) {
    const double momentum = call.settings.momentum;
    for (int64_t i = 0; i < call.gradient.elements; ++i) {
        const double weight = call.weights.data[i];
        const double g = value(call.gradient, i) + call.settings.decay * weight;
        const double b = call.velocity.empty() ? g : momentum * call.velocity.data[i] + g;
        if (!call.velocity.empty()) {
            call.velocity.data[i] = static_cast<float>(b);
        }
        const double step = call.settings.kind == SgdSettings::Kind::nesterov ? g + momentum * b : b;
        call.weights.data[i] = static_cast<float>(weight - call.settings.rate * step);
        if (!call.copy.empty()) {
            store(call.copy, 0, i, call.weights.data[i]);
        }
    }
}

}  // namespace accrue::reference
