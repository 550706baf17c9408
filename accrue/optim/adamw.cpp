#include "accrue/optim/adamw.h"

namespace accrue {

AdamW::AdamW(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels,
             Arena& memory)
    : Optimizer(KeptMoments(tensors, flat_elements, options.share)),
      options_(options),
      tensors_(std::move(tensors)),
      kernels_(kernels),
      first_(options.moments, kept_, kernels, memory),
      second_(options.moments, kept_, kernels, memory) {}

void AdamW::update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) {
    ++counters_.updates;
    counters_.beta1_power *= options_.beta1;
    counters_.beta2_power *= settings.beta2;
    AdamWSettings numbers{.rate = static_cast<float>(settings.rate),
                          .beta1 = static_cast<float>(options_.beta1),
                          .beta2 = static_cast<float>(settings.beta2),
                          .epsilon = static_cast<float>(options_.epsilon),
                          .correction1 = static_cast<float>(1.0 / (1.0 - counters_.beta1_power)),
                          .correction2 = static_cast<float>(1.0 / (1.0 - counters_.beta2_power))};
    for (const KeptPiece& piece : kept_.pieces()) {
        const OptimizedTensor& tensor = tensors_[static_cast<size_t>(piece.of.tensor)];
        numbers.decay = tensor.decays ? static_cast<float>(options_.weight_decay) : 0.0F;
        const MeanView mean = mean_of(gradient, piece.of);
        const auto [master, copy] = weights_of(weights, tensor, piece);
        if (options_.moments == MomentFormat::fp32) {
            kernels_.run(op::UpdateAdamW{.gradient = mean,
                                         .settings = numbers,
                                         .weights = master,
                                         .first_moment = first_.values_of(piece),
                                         .second_moment = second_.values_of(piece),
                                         .copy = copy});
        } else {
            kernels_.run(
                op::UpdateAdamW8Bit{.gradient = mean,
                                    .settings = numbers,
                                    .weights = master,
                                    .moments = {.first = first_.codes_of(piece),
                                                .second = second_.codes_of(piece),
                                                .rounding_key = rounding_key(options_.rounding_seed, piece.of)},
                                    .copy = copy});
        }
    }
}

std::vector<StoredMoment> AdamW::moments() {
    return {first_.stored("first_moment", kept_), second_.stored("second_moment", kept_)};
}

}  // namespace accrue
