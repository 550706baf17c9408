#pragma once

#include "accrue/optim/optimizer.h"

namespace accrue {

// Gradient descent with momentum, plain or Nesterov's; weight decay is part of the gradient.
class Sgd final : public Optimizer {
public:
    struct Options {
        double momentum = 0;
        SgdSettings::Kind kind = SgdSettings::Kind::plain;
        double weight_decay = 0;
    };
    Sgd(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels);

    void update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) override;
    [[nodiscard]] std::vector<Moment> moments() override;

private:
    Options options_;
    std::vector<OptimizedTensor> tensors_;
    Kernels& kernels_;
    Leased<float> velocity_;  // none without momentum
};

}  // namespace accrue
