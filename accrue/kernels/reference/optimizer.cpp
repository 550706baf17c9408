#include <cmath>

#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {

double ReferenceKernels::squared_norm(const MeanView& gradient) {
    double sum = 0;
    for (int64_t i = 0; i < gradient.elements; ++i) {
        sum += value(gradient, i) * value(gradient, i);
    }
    return sum;
}

void ReferenceKernels::adamw(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                             View<float> first_moment, View<float> second_moment, AnyView copy) {
    const auto& [rate, beta1, beta2, epsilon, decay, correction1, correction2] = settings;
    for (int64_t i = 0; i < gradient.elements; ++i) {
        const double g = value(gradient, i);
        const double weight = weights.data[i];
        const double m = first_moment.data[i] + (1.0 - beta1) * (g - first_moment.data[i]);
        const double v = second_moment.data[i] + (1.0 - beta2) * (g * g - second_moment.data[i]);
        const double step = m * correction1 / (std::sqrt(v * correction2) + epsilon);
        first_moment.data[i] = static_cast<float>(m);
        second_moment.data[i] = static_cast<float>(v);
        weights.data[i] = static_cast<float>(weight - rate * (step + decay * weight));
        if (!copy.empty()) {
            store(copy, 0, i, weights.data[i]);
        }
    }
}

void ReferenceKernels::sgd(const MeanView& gradient, const SgdSettings& settings, View<float> weights,
                           View<float> velocity, AnyView copy) {
    const double momentum = settings.momentum;
    for (int64_t i = 0; i < gradient.elements; ++i) {
        const double weight = weights.data[i];
        const double g = value(gradient, i) + settings.decay * weight;
        const double b = velocity.empty() ? g : momentum * velocity.data[i] + g;
        if (!velocity.empty()) {
            velocity.data[i] = static_cast<float>(b);
        }
        const double step = settings.kind == SgdSettings::Kind::nesterov ? g + momentum * b : b;
        weights.data[i] = static_cast<float>(weight - settings.rate * step);
        if (!copy.empty()) {
            store(copy, 0, i, weights.data[i]);
        }
    }
}

}  // namespace accrue
