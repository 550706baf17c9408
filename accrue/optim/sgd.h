#pragma once

#include <optional>

#include "accrue/optim/optimizer.h"

namespace accrue {

// Gradient descent with momentum, plain or Nesterov's; weight decay is part of the gradient.
class Sgd final : public Optimizer {
public:
    struct Options {
        double momentum = 0;
        SgdSettings::Kind kind = SgdSettings::Kind::plain;
        double weight_decay = 0;
        MomentFormat moments = MomentFormat::fp32;
        uint64_t rounding_seed = 0;  // a velocity in 8 bits only
        MomentShare share = {};      // all moments
    };
    // Moments come from `memory`: the arena of the kernels, or the piece of it that lies on the host.
    Sgd(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels,
        Arena& memory);
    Sgd(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels)
        : Sgd(options, std::move(tensors), flat_elements, kernels, kernels.arena()) {}

    void update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) override;
    [[nodiscard]] std::vector<StoredMoment> moments() override;

private:
    Options options_;
    std::vector<OptimizedTensor> tensors_;
    Kernels& kernels_;
    std::optional<MomentBuffer> velocity_;  // none without momentum
};

}  // namespace accrue
