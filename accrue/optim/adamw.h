#pragma once

#include "accrue/optim/optimizer.h"

namespace accrue {

// AdamW: moments in fp32 or 8 bits, bias-corrected by the products of the betas actually used, decoupled weight decay.
class AdamW final : public Optimizer {
public:
    struct Options {
        double beta1 = 0.9;
        double epsilon = 1e-8;
        double weight_decay = 0;
        MomentFormat moments = MomentFormat::fp32;
        uint64_t rounding_seed = 0;  // moments in 8 bits only
        MomentShare share = {};      // all moments
    };
    // Moments come from `memory`: the arena of the kernels, or the piece of it that lies on the host.
    AdamW(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels,
          Arena& memory);
    AdamW(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels)
        : AdamW(options, std::move(tensors), flat_elements, kernels, kernels.arena()) {}

    void update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) override;
    [[nodiscard]] std::vector<StoredMoment> moments() override;

private:
    Options options_;
    std::vector<OptimizedTensor> tensors_;
    Kernels& kernels_;
    MomentBuffer first_;
    MomentBuffer second_;
};

}  // namespace accrue
